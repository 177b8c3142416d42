"""Tell GitHub: what a change does as one comment on a pull request, and drift as one issue.

    report.py comment FILE PULL_REQUEST
    report.py drift FOLDER

FILE is what `make report` has printed; FOLDER holds what `keep` wrote. It
finds comment and issue by the mark in their first line and edits them; it
closes the issue when there is no drift. Reads GitHub's own GITHUB_API_URL,
GITHUB_REPOSITORY and GITHUB_TOKEN; for drift also GITHUB_RUN_ID, GITHUB_SERVER_URL
and STACKS, a JSON list of all stacks that the run checks. Needs nothing but
Python's standard library.
"""

from __future__ import annotations

import json
import os
import re
import sys
import urllib.error
import urllib.request
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

MOST_CHARACTERS = 60_000
"""Of the results of all stacks together; GitHub takes 65,536 in a body."""
_LEFT_OUT = "(the beginning is left out; see the run)\n"
_MOST_BACKTICKS = 9
"""In a row, in what a command has printed: its block begins and ends with one more."""
_OF_PERMISSIONS = (401, 403, 404)
"""The statuses with which GitHub refuses who asks, not what is asked."""
AUTHOR = "github-actions[bot]"
_PAGE = 100
_TIMEOUT_SECONDS = 30


@dataclass(frozen=True)
class Result:
    """The result of one stack; its `code` is None if its job ended before."""

    stack: str
    code: int | None
    output: str = ""


COMMENT = "<!-- trainyard: preview -->"
ISSUE = "<!-- trainyard: drift -->"
"""Marks."""
NOTHING = "## It touches no stack"
"""How the report of a change begins that is not worth a comment."""
TITLE = "The cluster is not what git says"


def drift(results: Sequence[Result], run: str) -> str:
    """The issue as Markdown.

    Args:
        results: One a stack.
        run: Address of the run that asked.
    """
    share = MOST_CHARACTERS // max(len(results), 1)
    parts = [_part(result, share) for result in results] or ["There are no stacks."]
    return "\n\n".join([f"{ISSUE}\n## {TITLE}", *parts, f"[The run]({run})"]) + "\n"


def read(folder: Path, stacks: Iterable[str]) -> list[Result]:
    """What `keep` wrote about each of the stacks."""
    results = []
    for stack in stacks:
        try:
            code = int((folder / f"{stack}.exit").read_text(encoding="utf-8"))
            output = (folder / f"{stack}.txt").read_text(encoding="utf-8", errors="replace")
        except (OSError, ValueError):
            results.append(Result(stack, None))
        else:
            results.append(Result(stack, code, output))
    return results


class GitHub:
    """The few calls of GitHub's REST API that are needed here.

    Args:
        environment: GitHub's variables, see above.
    """

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._base = f"{environment['GITHUB_API_URL']}/repos/{environment['GITHUB_REPOSITORY']}"
        self._token = environment["GITHUB_TOKEN"]

    def comment(self, pull_request: int, text: str, *, create: bool) -> None:
        """Update our comment; create it only if `create`."""
        ours = self._ours(f"issues/{pull_request}/comments?", text)
        if ours is not None:
            self._call("PATCH", f"issues/comments/{ours['id']}", {"body": text})
        elif create:
            self._call("POST", f"issues/{pull_request}/comments", {"body": text})

    def issue(self, title: str, text: str, *, is_open: bool) -> None:
        """Update our open issue, close it, or open a new one; a closed issue stays closed."""
        ours = self._ours("issues?state=open&", text)
        if ours is not None:
            state = {} if is_open else {"state": "closed"}
            self._call("PATCH", f"issues/{ours['number']}", {"title": title, "body": text, **state})
        elif is_open:
            self._call("POST", "issues", {"title": title, "body": text})

    def _ours(self, path: str, text: str) -> dict[str, Any] | None:
        mark = text.splitlines()[0]
        for item in self._all(path):
            # Whoever copies the mark into a text of their own keeps that text.
            if item["user"]["login"] == AUTHOR and (item["body"] or "").startswith(mark):
                return item
        return None

    def _all(self, path: str) -> Iterator[dict[str, Any]]:
        page: list[dict[str, Any]] = []
        number = 0
        while number == 0 or len(page) == _PAGE:
            number += 1
            page = self._call("GET", f"{path}per_page={_PAGE}&page={number}")
            yield from page

    def _call(self, method: str, path: str, content: object = None) -> Any:
        request = urllib.request.Request(  # noqa: S310 - GitHub's own variable says where
            f"{self._base}/{path}",
            method=method,
            data=None if content is None else json.dumps(content).encode(),
            headers={
                "Accept": "application/vnd.github+json",
                "Authorization": f"Bearer {self._token}",
                "Content-Type": "application/json",
            },
        )
        with urllib.request.urlopen(request, timeout=_TIMEOUT_SECONDS) as answer:  # noqa: S310
            return json.load(answer)


def main(arguments: Sequence[str], environment: Mapping[str, str]) -> int:
    """Do what the command line says; returns the exit code."""
    try:
        match arguments:
            case ["comment", file, number]:
                report = Path(file).read_text(encoding="utf-8")
                # Without news there is no comment, but an earlier one is corrected.
                create = not report.startswith(NOTHING)
                GitHub(environment).comment(int(number), f"{COMMENT}\n{report}", create=create)
            case ["drift", folder]:
                results = read(Path(folder), json.loads(environment["STACKS"]))
                text = drift(results, _run(environment))
                GitHub(environment).issue(TITLE, text, is_open=any(r.code != 0 for r in results))
            case _:
                raise ValueError("usage: report.py comment FILE PULL_REQUEST | report.py drift FOLDER")
    except KeyError as error:
        print(f"report.py: the variable {error.args[0]} is missing", file=sys.stderr)
        return 2
    except urllib.error.HTTPError as error:
        hint = "; see the permissions of this job" if error.code in _OF_PERMISSIONS else ""
        print(f"report.py: {error} ({error.url}){hint}", file=sys.stderr)
        return 2
    except (ValueError, OSError) as error:
        print(f"report.py: {error}", file=sys.stderr)
        return 2
    return 0


def _run(environment: Mapping[str, str]) -> str:
    above = "/".join(environment[name] for name in ("GITHUB_SERVER_URL", "GITHUB_REPOSITORY"))
    return f"{above}/actions/runs/{environment['GITHUB_RUN_ID']}"


def _part(result: Result, share: int) -> str:
    if result.code is None:
        return f"**{result.stack}**: not asked, its job ended before; see the run."
    outcome = "no drift" if result.code == 0 else "drift, or the check failed"
    output = re.sub(f"`{{{_MOST_BACKTICKS},}}", "`" * _MOST_BACKTICKS, result.output.strip("\n"))
    part = _folded(result.stack, outcome, output)
    if len(part) <= share:
        return part
    room = share - (len(part) - len(output)) - len(_LEFT_OUT)
    if room <= 0:
        return f"**{result.stack}**: {outcome}; see the run."
    # The end has the rows of drift and the counts.
    return _folded(result.stack, outcome, f"{_LEFT_OUT}{output[-room:]}")


def _folded(stack: str, outcome: str, output: str) -> str:
    return f"<details><summary><b>{stack}</b>: {outcome}</summary>\n\n{_block(output)}\n\n</details>"


def _block(text: str) -> str:
    # Longer than what stands inside, so that nothing in there ends it.
    fence = "`" * max(3, 1 + max(map(len, re.findall("`+", text)), default=0))
    return f"{fence}text\n{text}\n{fence}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], os.environ))
