"""The progress of a roll-out where no bar can be drawn."""

import io

import pytest

from trainyard_cli.commands.rollout_progress import Progress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("err", [io.StringIO, Terminal], ids=["a pipe", "a terminal in Emacs"])
def test_without_a_bar_the_progress_is_lines(err: type[io.StringIO], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "dumb")
    for variable in ("FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE"):
        monkeypatch.delenv(variable, raising=False)
    file = err()
    with Progress(file) as progress:
        progress.begin("Rolling out prod", 2)
        progress.at(1, "Namespace team")
        progress.say("warning: slow")
    assert file.getvalue() == "Rolling out prod ...\nwarning: slow\n"
