"""What the command line of the benchmarks refuses and says."""

import sys

import pytest
from benchmarks.__main__ import main


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch):
    def run(*arguments: str) -> int:
        monkeypatch.setattr(sys, "argv", ["benchmarks", *arguments])
        return main()

    return run


def test_another_checkout_is_not_compared_by_programs_of_this_one(command, tmp_path, capsys):
    with pytest.raises(SystemExit):
        command("--against", str(tmp_path), "burst", "commands", "platform")
    assert capsys.readouterr().err.splitlines()[-1] == (
        "python -m benchmarks: error: commands, platform: runs the programs of this checkout alone; "
        "nothing to compare"
    )
