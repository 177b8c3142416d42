"""What Pulumi said comes to GitHub once: as one comment, as one issue; by the scripts as they are called."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

SCRIPTS = Path(__file__).parents[2] / ".github" / "scripts"
BOT = {"login": "github-actions[bot]"}
RUN = "[The run](https://github.example/acme/platform/actions/runs/7)"


class Hub(ThreadingHTTPServer):
    """As much of GitHub's REST API as a report needs: comments of pull request 5, and issues."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.comments: list[dict[str, Any]] = []
        self.issues: list[dict[str, Any]] = []
        self.writes: list[str] = []
        self.refuses: int | None = None
        """The status of every POST."""

    def report(self, *arguments: str, stacks: Sequence[str] = ()) -> subprocess.CompletedProcess[str]:
        variables = {
            "GITHUB_API_URL": f"http://127.0.0.1:{self.server_port}",
            "GITHUB_REPOSITORY": "acme/platform",
            "GITHUB_RUN_ID": "7",
            "GITHUB_SERVER_URL": "https://github.example",
            "GITHUB_TOKEN": "t0ken",
            "STACKS": json.dumps(list(stacks)),
        }
        command = [sys.executable, str(SCRIPTS / "report.py"), *arguments]
        return subprocess.run(command, env=variables, capture_output=True, text=True, check=False)


class Handler(BaseHTTPRequestHandler):
    server: Hub

    def do_GET(self) -> None:
        address = urlsplit(self.path)
        query = {key: value[0] for key, value in parse_qs(address.query).items()}
        found = {
            "/repos/acme/platform/issues/5/comments": self.server.comments,
            "/repos/acme/platform/issues": [
                issue for issue in self.server.issues if issue["state"] == query.get("state")
            ],
        }[address.path]
        size, page = int(query["per_page"]), int(query["page"])
        self.answer(200, found[(page - 1) * size : page * size])

    def do_POST(self) -> None:
        if self.server.refuses is not None:
            self.send_error(self.server.refuses)
            return
        kept = self.server.comments if self.path.endswith("/comments") else self.server.issues
        number = len(kept) + 1
        kept.append({"id": number, "number": number, "state": "open", "user": BOT, **self.content()})
        self.answer(201, kept[-1])

    def do_PATCH(self) -> None:
        kept = self.server.comments if "/comments/" in self.path else self.server.issues
        item = kept[int(self.path.rsplit("/", 1)[1]) - 1]
        item |= self.content()
        self.answer(200, item)

    def content(self) -> dict[str, Any]:
        assert self.headers["Authorization"] == "Bearer t0ken"
        self.server.writes.append(f"{self.command} {self.path.removeprefix('/repos/acme/platform/')}")
        return dict(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))

    def answer(self, status: int, content: object) -> None:
        self.send_response(status)
        self.end_headers()
        self.wfile.write(json.dumps(content).encode())

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def hub() -> Iterator[Hub]:
    hub = Hub()
    thread = Thread(target=hub.serve_forever, args=(0.01,))
    thread.start()
    yield hub
    hub.shutdown()
    thread.join()
    hub.server_close()


def kept(folder: Path, stack: str, said: str, code: int = 0) -> str:
    """What `keep` leaves of a command; the folder, as the command line has it."""
    script = 'printf %s "$0"; exit "$1"'
    command = [str(SCRIPTS / "keep"), str(folder), stack, "bash", "-c", script, said, str(code)]
    answer = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (answer.returncode, answer.stdout) == (code, said)
    return str(folder)


def test_keep_shows_what_a_command_says_on_both_streams_and_ends_as_it_does(tmp_path: Path) -> None:
    command = [str(SCRIPTS / "keep"), "results", "prod", "bash", "-c", "echo out; echo err >&2; exit 3"]
    answer = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (answer.returncode, sorted(answer.stdout.split()), answer.stderr) == (3, ["err", "out"], "")
    assert (tmp_path / "results" / "prod.exit").read_text() == "3\n"
    assert (tmp_path / "results" / "prod.txt").read_text() == answer.stdout
    assert (tmp_path / "results" / "prod.out").read_text() == "out\n"


def test_keep_names_the_file_for_an_outcome_and_leaves_nothing_of_an_earlier_command(tmp_path: Path) -> None:
    results = tmp_path / "results"
    results.mkdir()
    for name in ("prod.txt", "prod.out", "prod.exit", "prod.json", "prod-2.json"):
        (results / name).write_text("earlier")
    killed = 'echo "$OUTCOME"; until [ -s results/prod.txt ]; do sleep 0.01; done; kill $PPID'
    command = [str(SCRIPTS / "keep"), "results", "prod", "bash", "-c", killed]
    answer = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert answer.stdout == "results/prod.json\n"
    assert sorted(path.name for path in results.iterdir()) == ["prod-2.json", "prod.out", "prod.txt"]


def written(folder: Path, text: str) -> str:
    """What `make report` has printed; the file, as the command line has it."""
    file = folder / "report.md"
    file.write_text(text)
    return str(file)


def test_a_comment_is_the_report_below_its_mark(hub: Hub, tmp_path: Path) -> None:
    answer = hub.report("comment", written(tmp_path, "## 1 change\n"), "5")
    assert (answer.returncode, answer.stderr, hub.writes) == (0, "", ["POST issues/5/comments"])
    assert hub.comments[0]["body"] == "<!-- trainyard: preview -->\n## 1 change\n"


def test_a_second_comment_is_the_first_one_edited_wherever_it_stands(hub: Hub, tmp_path: Path) -> None:
    mark = "<!-- trainyard: preview -->\n"
    others = [{"login": "ada"}] * 120
    hub.comments = [{"id": i + 1, "user": user, "body": f"{mark}mine"} for i, user in enumerate(others)]
    for said in ("first", "second"):
        answer = hub.report("comment", written(tmp_path, said), "5")
        assert answer.returncode == 0, answer.stderr
    assert hub.writes == ["POST issues/5/comments", "PATCH issues/comments/121"]
    assert [c["body"] for c in hub.comments[:120]] == [f"{mark}mine"] * 120
    assert "second" in hub.comments[120]["body"]


def test_a_change_that_touches_no_stack_is_not_worth_a_comment_but_corrects_one(
    hub: Hub, tmp_path: Path
) -> None:
    file = written(tmp_path, "## It touches no stack\n")
    hub.report("comment", file, "5")
    assert hub.writes == []
    hub.report("comment", written(tmp_path, "## 1 change\n"), "5")
    hub.report("comment", written(tmp_path, "## It touches no stack\n"), "5")
    assert [c["body"].splitlines()[1] for c in hub.comments] == ["## It touches no stack"]


def test_a_change_that_only_removes_the_file_of_a_stack_gets_its_comment(hub: Hub, tmp_path: Path) -> None:
    hub.report("comment", written(tmp_path, "## The file of prod is gone\n"), "5")
    assert [c["body"].splitlines()[1] for c in hub.comments] == ["## The file of prod is gone"]


def test_what_is_said_of_drift_can_neither_leave_its_block_nor_outgrow_an_issue(
    hub: Hub, tmp_path: Path
) -> None:
    said = "begin\n" + "````\n<b>no</b>\n" * 20_000 + "prod: 3 differ"
    answer = hub.report("drift", kept(tmp_path, "prod", said[-100_000:], 1), stacks=["prod"])
    assert answer.returncode == 0, answer.stderr
    text = hub.issues[0]["body"]
    assert len(text) < 65_536
    assert "(the beginning is left out; see the run)" in text
    assert "prod: 3 differ\n`````\n" in text
    assert len(re.findall(r"^`{5,}", text, re.MULTILINE)) == 2
    assert text.endswith(f"{RUN}\n")


@pytest.mark.parametrize("number", [36, 200, 600])
def test_the_drift_of_many_stacks_does_not_outgrow_an_issue(hub: Hub, tmp_path: Path, number: int) -> None:
    stacks = [f"prod-{at}" for at in range(number)]
    for stack in stacks:
        (tmp_path / f"{stack}.exit").write_text("1\n")
        (tmp_path / f"{stack}.txt").write_text("~ ConfigMap one\n" * 500 + "`" * 5_000)
    answer = hub.report("drift", str(tmp_path), stacks=stacks)
    assert answer.returncode == 0, answer.stderr
    text = hub.issues[0]["body"]
    assert len(text) < 65_536
    assert all(re.search(rf"\b{stack}\b", text) for stack in stacks)
    assert ("(the beginning is left out; see the run)" in text) == (number < 600)
    assert text.endswith(f"{RUN}\n")


def test_drift_is_one_issue_that_is_edited_and_closed_when_it_is_gone(hub: Hub, tmp_path: Path) -> None:
    for said, code in (("~ 1 to update", 2), ("~ 2 to update", 2), ("3 unchanged", 0), ("3 unchanged", 0)):
        answer = hub.report("drift", kept(tmp_path, "prod", said, code), stacks=["prod"])
        assert answer.returncode == 0, answer.stderr
    assert hub.writes == ["POST issues", "PATCH issues/1", "PATCH issues/1"]
    [issue] = hub.issues
    assert (issue["title"], issue["state"]) == ("The cluster is not what git says", "closed")
    assert "<b>prod</b>: no drift" in issue["body"]
    hub.report("drift", kept(tmp_path, "prod", "~ 1 to update", 2), stacks=["prod"])
    assert [issue["state"] for issue in hub.issues] == ["closed", "open"]


def test_a_stack_that_was_not_asked_is_no_stack_without_drift(hub: Hub, tmp_path: Path) -> None:
    hub.report("drift", str(tmp_path), stacks=["prod"])
    assert [issue["body"].splitlines()[3] for issue in hub.issues] == [
        "**prod**: not asked, its job ended before; see the run."
    ]


def test_what_cannot_be_done_is_said_without_a_traceback(hub: Hub, tmp_path: Path) -> None:
    usage = "report.py: usage: report.py comment FILE PULL_REQUEST | report.py drift FOLDER\n"
    assert hub.report("comment").stderr == usage
    hub.refuses = 422
    answer = hub.report("drift", str(tmp_path), stacks=["prod"])
    assert answer.stderr.startswith("report.py: HTTP Error 422: ")
    assert answer.stderr.endswith(f"(http://127.0.0.1:{hub.server_port}/repos/acme/platform/issues)\n")
    hub.refuses = 403
    assert hub.report("drift", str(tmp_path), stacks=["prod"]).stderr == (
        "report.py: HTTP Error 403: Forbidden "
        f"(http://127.0.0.1:{hub.server_port}/repos/acme/platform/issues); "
        "see the permissions of this job\n"
    )
    hub.shutdown()
    hub.server_close()
    answer = hub.report("drift", str(tmp_path), stacks=["prod"])
    assert (answer.returncode, answer.stderr) == (
        2,
        "report.py: <urlopen error [Errno 111] Connection refused>\n",
    )
    command = [sys.executable, str(SCRIPTS / "report.py"), "drift", str(tmp_path)]
    environment = {key: value for key, value in os.environ.items() if not key.startswith("GITHUB_")}
    answer = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert (answer.returncode, answer.stderr) == (
        2,
        "report.py: the variable STACKS is missing\n",
    )
