"""docs/stability.md lists what the code has: a new name needs its line there, and so does one that goes."""

import re
from collections.abc import Iterator
from pathlib import Path

from trainyard_api import names
from trainyard_cli.commands import answers, cancel, retry
from trainyard_cli.commands.attach import LEFT
from trainyard_cli.local.run import INTERRUPTED
from trainyard_cli.main import COMMANDS
from trainyard_cli.on_demand import READER_GONE
from trainyard_cli.output import CANNOT_ASK, FINE, REFUSED
from trainyard_policies.exceptions import PREFIX

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs/stability.md").read_text()
PACKAGES = ("api", "assist", "cli", "delivery", "kube", "platform", "policies", "sandbox")
"""What the command is made of."""
ANSWERS = {cancel.VERB, retry.VERB, "resume", "suspend"}
"""Commands whose answers are of one form."""
OF_THE_OPERATOR = {
    names.BUILT_AS_ANNOTATION,
    names.FEATURE_GATES_ANNOTATION,
    names.IN_FORCE_SINCE_ANNOTATION,
    names.MODULE_ANNOTATION,
    names.PLACEMENT_ANNOTATION,
    names.RAN_AS_ANNOTATION,
    names.RENDERED_ANNOTATION,
    names.RUNTIME_UID_LABEL,
    names.UNREFERENCED_SINCE_ANNOTATION,
}
"""Its own notes, which nobody else relies on."""


def part(title: str) -> str:
    """The text under a heading, to the next one."""
    return re.split(r"(?m)^##", PAGE.partition(f" {title}\n")[2], maxsplit=1)[0]


def modules(*packages: str) -> Iterator[str]:
    """The source of each module of the packages."""
    for package in packages:
        for path in (ROOT / package / f"trainyard_{package}").rglob("*.py"):
            yield path.read_text()


def kinds() -> dict[str, str]:
    """The kind of each JSON answer, by its apiVersion, as the modules that make them say."""
    versions = {}
    for text in modules("assist", "cli", "delivery"):
        version = re.search(r'^API_VERSION: Final = "([a-z]+\.trainyard\.dev/v\w+)"$', text, re.MULTILINE)
        if version:
            [kind] = set(re.findall(r'(?:"kind": |^KIND: Final = )"(\w+)"', text, re.MULTILINE)) - {"List"}
            versions[version[1]] = kind
    return versions


def test_the_page_lists_the_annotations_and_labels_of_our_own() -> None:
    listed = set(re.findall(r"`((?:[a-z]+\.)?trainyard\.dev/[a-zA-Z-]+)`", part("Annotations and labels")))
    ours = {
        value
        for value in vars(names).values()
        if isinstance(value, str) and value.startswith(names.OWN_PREFIX) and value != names.OWN_PREFIX
    }
    assert listed == (ours - OF_THE_OPERATOR) | {f"{PREFIX}RULE"}


def test_the_page_lists_the_json_answers() -> None:
    rows = re.findall(r"^\| `(\S+)` \| `(\w+)` \| .*`trainyard ([a-z]+)", part("JSON answers"), re.MULTILINE)
    document = answers.document("VERB", [])
    of_answers = {document["apiVersion"].replace("VERB", verb): document["kind"] for verb in ANSWERS}
    assert {version: kind for version, kind, _ in rows} == kinds() | of_answers
    assert {command for *_, command in rows} <= COMMANDS.keys()


def test_each_command_that_answers_about_trainjobs_is_in_the_list() -> None:
    printing = {
        path.stem
        for path in (ROOT / "cli/trainyard_cli/commands").glob("*.py")
        if re.search(r"\banswers\.(Printer|run_each)\(", path.read_text())
    }
    assert printing == ANSWERS


def test_the_page_lists_the_exit_codes() -> None:
    listed = [int(code) for code in re.findall(r"^\| (\d+) \|", part("Exit codes"), re.MULTILINE)]
    assert listed == [FINE, REFUSED, CANNOT_ASK, LEFT, READER_GONE]
    assert INTERRUPTED == LEFT
    raised = {
        int(code)
        for text in modules(*PACKAGES)
        for code in re.findall(r"^ +exit_code(?:: ClassVar\[int\])? = (\d+)$", text, re.MULTILINE)
    }
    assert raised == {REFUSED, CANNOT_ASK}
    assert {command for command in re.findall(r"`([a-z]+)`", part("Exit codes")) if command != "make"} <= {
        *COMMANDS
    }
