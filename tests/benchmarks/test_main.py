"""What the command line of the benchmarks refuses and says."""

import signal
import sys

import benchmarks.__main__
import pytest

from benchmarks import plane


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch):
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}

    def run(*arguments: str) -> int:
        monkeypatch.setattr(sys, "argv", ["benchmarks", *arguments])
        return benchmarks.__main__.main()

    yield run
    for number, handler in handlers.items():
        signal.signal(number, handler)


def test_another_checkout_is_not_compared_by_programs_of_this_one(command, tmp_path, capsys):
    with pytest.raises(SystemExit):
        command("--against", str(tmp_path), "burst", "commands", "platform")
    assert capsys.readouterr().err.splitlines()[-1] == (
        "python -m benchmarks: error: commands, platform: runs the programs of this checkout alone; "
        "nothing to compare"
    )


def test_a_signal_ends_the_build_too(command, monkeypatch, tmp_path, capsys):
    def build() -> None:
        signal.raise_signal(signal.SIGTERM)
        raise AssertionError("the signal was not heard")

    monkeypatch.setattr(plane, "build", build)
    monkeypatch.setattr(benchmarks.__main__, "cache_dir", lambda: tmp_path)
    assert (command("burst"), capsys.readouterr().err) == (
        130,
        "Ended early. Everything that it had started has ended, too.\n",
    )


def test_what_is_no_checkout_is_named(command, tmp_path, capsys):
    assert (command("--against", str(tmp_path / "typo"), "burst"), capsys.readouterr().err) == (
        2,
        f"--against {tmp_path / 'typo'}: must be a checkout of Trainyard; "
        "it has no api/trainyard_api/configuration.py\n",
    )
