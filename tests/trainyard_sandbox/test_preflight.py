"""Debian packages are installed beside whoever else installs some."""

import os
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from trainyard_api import places
from trainyard_sandbox import isolation, preflight
from trainyard_sandbox.errors import SandboxError
from trainyard_sandbox.locks import locked
from trainyard_sandbox.progress import Progress


def packages(path: Path) -> subprocess.CompletedProcess[str]:
    """What the script does with the commands of this folder."""
    command = [places.shipped("sandbox/install-packages")]
    return subprocess.run(command, env={"PATH": str(path)}, capture_output=True, text=True, check=False)


def script(path: Path, *lines: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(["#!/bin/sh", *lines, ""]))
    path.chmod(0o755)


def installed(folder: Path, *lines: str) -> tuple[int, list[str]]:
    """Exit code and calls of apt-get, which ends with these lines, where no package is there."""
    script(folder / "bin" / "sleep")
    script(folder / "bin" / "apt-get", f"echo $1 >> {folder}/calls", *lines)
    return packages(folder / "bin").returncode, (folder / "calls").read_text().split()


@pytest.mark.parametrize(
    "words",
    ["Unable to lock directory /var/lib/apt/lists/", "Unable to lock the download directory"],
)
def test_apt_get_is_run_again_while_another_one_holds_its_lock(tmp_path: Path, words: str) -> None:
    once = (f"[ -e {tmp_path}/free ] && exit", f": > {tmp_path}/free", f"echo 'E: {words}' >&2", "exit 100")
    assert installed(tmp_path, *once) == (0, ["update", "update", "install"])


def test_apt_get_is_not_run_again_for_another_reason(tmp_path: Path) -> None:
    assert installed(tmp_path, "echo 'E: no network' >&2", "exit 100") == (100, ["update"])


def test_apt_get_is_not_run_for_ever(tmp_path: Path) -> None:
    code, calls = installed(tmp_path, "echo 'E: Unable to lock directory /x' >&2", "exit 100")
    assert (code, calls) == (100, 120 * ["update"])


def test_a_package_for_which_another_would_have_to_go_is_not_installed(tmp_path: Path) -> None:
    """As Docker's containerd.io would for Debian's containerd."""
    script(
        tmp_path / "apt-get",
        'case "$*" in',
        "*--simulate*) echo 'Inst runc [1]'; echo 'Remv containerd.io [1.7]'; echo 'Remv docker-ce [27]' ;;",
        "*--no-remove*) echo 'E: Packages need to be removed but remove is disabled.' >&2; exit 100 ;;",
        "esac",
    )
    for command in ("sed", "tr"):
        (tmp_path / command).symlink_to(f"/usr/bin/{command}")
    answer = packages(tmp_path)
    assert (answer.returncode, answer.stderr) == (
        100,
        "Nothing was installed: apt would remove containerd.io docker-ce. If you can do without, run: "
        f"apt-get install {' '.join(answer.stdout.splitlines()[0].split()[3:])}\n",
    )


def test_without_apt_get_it_says_which_commands_and_files_are_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for command in ("unshare", "ip", "ipset", "iptables", "runc", "buildah", "gpg"):
        script(tmp_path / command)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SandboxError) as error:
        preflight.require_installable()
    intro, _, missing = str(error.value).partition(" what has: ")
    assert intro == "This is neither Debian nor Ubuntu (it has no apt-get): install yourself"
    assert "mmdebstrap" in missing.split()
    (tmp_path / "apt-get").touch(0o755)
    preflight.require_installable()


def test_packages_that_another_command_has_just_installed_are_not_installed_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TRAINYARD_CACHE", str(tmp_path))
    there, again = tmp_path / "there", tmp_path / "again"
    program = tmp_path / "install-packages"
    script(program, f"[ -e {there} ] && exit", "[ $# = 1 ] && echo runc && exit 1", f": > {again}")
    monkeypatch.setattr(places, "shipped", lambda path: program)
    told = ""
    with ThreadPoolExecutor(1) as pool:
        with locked(tmp_path / "locks" / "packages.lock", "nobody"):
            waits = pool.submit(preflight.require_packages, Progress())
            deadline = time.monotonic() + 20
            while not told and time.monotonic() < deadline:
                time.sleep(0.02)
                told = capsys.readouterr().err
            there.touch()
        waits.result()
    assert told == "Waiting for another installation of Debian packages to finish ...\n"
    assert not again.exists()


def refused(folder: Path, hierarchy: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Why nodes can have no space, with the commands of this folder."""
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.setattr(isolation, "_hierarchies", lambda: iter([hierarchy]))
    with pytest.raises(SandboxError) as error:
        preflight.require_isolation()
    return str(error.value)


def test_a_root_that_may_not_make_namespaces_is_told_before_anything_is_built(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script(tmp_path / "unshare", "echo unshare: unshare failed: Operation not permitted >&2", "exit 1")
    assert refused(tmp_path, tmp_path, monkeypatch) == (
        "A node that runs pods needs namespaces, mounts and control groups, which root cannot have here "
        "(unshare: unshare failed: Operation not permitted). In a container: give it these rights (docker "
        "run --privileged), or ask for `--control-plane-only`, where nodes are simulated and nothing runs in "
        "pods."
    )


def test_a_root_that_may_not_make_control_groups_is_told_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script(tmp_path / "unshare")
    hierarchy = tmp_path / "file"
    hierarchy.touch()
    assert f"({hierarchy}/trainyard-{os.getpid()}: Not a directory)" in refused(
        tmp_path, hierarchy, monkeypatch
    )


def test_where_nodes_can_have_a_space_nothing_of_the_try_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script(tmp_path / "bin" / "unshare", f'echo "$@" > {tmp_path}/called')
    (tmp_path / "hierarchy").mkdir()
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setattr(isolation, "_hierarchies", lambda: iter([tmp_path / "hierarchy"]))
    preflight.require_isolation()
    called = (tmp_path / "called").read_text()
    assert called == "--mount --net sh -c echo 1 > /proc/sys/net/ipv4/ip_forward\n"
    assert list((tmp_path / "hierarchy").iterdir()) == []
    (tmp_path / "bin" / "unshare").unlink()
    preflight.require_isolation()
