"""What only Linux has, the command does without, or it says so."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from tests.support.answers import answered
from trainyard_cli import main


@pytest.mark.parametrize("platform", ["darwin", "win32"])
def test_elsewhere_the_sandbox_says_that_it_needs_linux(
    platform: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "platform", platform)
    monkeypatch.setattr(sys, "argv", ["trainyard", "sandbox", "up"])
    with pytest.raises(SystemExit) as ended:
        main.main()
    assert (ended.value.code, capsys.readouterr().err) == (
        2,
        "trainyard sandbox needs Linux: run it in a virtual machine with Debian or Ubuntu\n",
    )


def test_without_the_signals_of_unix_the_command_starts() -> None:
    script = (
        "import signal, sys; del signal.SIGPIPE, signal.SIGHUP; sys.argv = ['trainyard', '--version']; "
        "from trainyard_cli import interrupts, main; main.main()"
    )
    answer = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert (answer.returncode, answer.stderr, answer.stdout[:10]) == (0, "", "trainyard ")


def test_a_module_that_only_unix_has_is_not_called_a_package_to_install() -> None:
    def command() -> int:
        raise ModuleNotFoundError("No module named 'termios'", name="termios")

    assert answered(command) == (
        2,
        "",
        "This command needs Linux or macOS: Python has no termios here. On Windows, use WSL\n",
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["verify"], "The current folder was deleted: change into one that is there\n"),
        (["jobs", "--kubeconfig", "/no/such"], "kubeconfig /no/such: No such file or directory\n"),
    ],
    ids=["needs it", "does without"],
)
def test_only_a_command_that_needs_the_current_folder_says_that_it_was_deleted(
    arguments: list[str],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    monkeypatch.setattr(sys, "argv", ["trainyard", *arguments])
    with pytest.raises(SystemExit) as ended:
        main.main()
    assert (ended.value.code, capsys.readouterr().err) == (2, message)
    assert answered(Path.cwd) == (2, "", "The current folder was deleted: change into one that is there\n")


def test_without_a_folder_for_temporary_files_a_command_says_which_it_tried(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", None)
    monkeypatch.setattr(tempfile, "_candidate_tempdir_list", lambda: ["/no/such", "/nor/this"])
    assert answered(tempfile.gettempdir) == (
        2,
        "",
        "No usable temporary directory found in ['/no/such', '/nor/this']: "
        "make one of them writable and make room, or set TMPDIR\n",
    )


@pytest.mark.parametrize("buffered", [{}, {"PYTHONUNBUFFERED": "1"}], ids=["at its end", "at once"])
def test_an_output_on_a_full_disk_is_said_in_one_line(buffered: dict[str, str]) -> None:
    script = "import sys; sys.argv = ['trainyard', '--version']; from trainyard_cli import main; main.main()"
    with open("/dev/full", "w") as full:
        answer = subprocess.run(
            [sys.executable, "-c", script],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            env={"PATH": os.environ["PATH"], **buffered},
            check=False,
        )
    assert (answer.returncode, answer.stderr) == (
        2,
        "No space left on device: make room (`df -h` and `quota` show where), then run it again\n",
    )
