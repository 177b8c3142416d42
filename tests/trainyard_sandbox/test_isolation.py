"""The control groups of a sandbox, in folders that stand in for the kernel's."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from trainyard_sandbox import isolation

ALL = "cpu cpuset hugetlb io memory pids rdma\n"
PASSED_ON = "+cpu +cpuset +hugetlb +memory +pids"


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The topmost group of version 2, which passes no controller on."""
    root = tmp_path / "cgroup"
    group(root, ALL)
    monkeypatch.setattr(isolation, "_hierarchies", lambda: iter([root]))
    monkeypatch.setattr(isolation, "_UNIFIED", root)
    return root


def group(folder: Path, controllers: str, passed_on: str = "") -> None:
    folder.mkdir(parents=True)
    (folder / "cgroup.controllers").write_text(controllers)
    (folder / "cgroup.subtree_control").write_text(passed_on)


def passed_on(folder: Path) -> str:
    return (folder / "cgroup.subtree_control").read_text()


def test_kubelet_has_in_its_group_the_controllers_that_it_demands(root: Path) -> None:
    group(root / "trainyard", ALL)
    isolation.enter_cgroup("trainyard/node-2")
    assert (passed_on(root), passed_on(root / "trainyard")) == (PASSED_ON, PASSED_ON)
    assert (root / "trainyard/node-2/system/cgroup.procs").read_text() == str(os.getpid())


def test_what_the_machine_lacks_or_passes_on_already_is_left_alone(root: Path) -> None:
    group(root / "trainyard", "cpu memory\n", "cpu memory\n")
    (root / "cgroup.controllers").write_text("cpu io memory\n")
    (root / "cgroup.subtree_control").write_text("cpu\n")
    isolation.enter_cgroup("trainyard")
    assert (passed_on(root), passed_on(root / "trainyard")) == ("+memory", "cpu memory\n")


def test_in_a_container_the_processes_of_its_topmost_group_move_out_of_the_way(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (root / "cgroup.procs").write_text("4711\n")
    write = Path.write_text

    def refused_while_it_has_processes(file: Path, text: str) -> int:
        if file == root / "cgroup.subtree_control" and not (root / "init" / "cgroup.procs").exists():
            raise OSError(errno.EBUSY, "Device or resource busy")
        return write(file, text)

    monkeypatch.setattr(Path, "write_text", refused_while_it_has_processes)
    isolation.enter_cgroup("trainyard")
    assert (root / "init" / "cgroup.procs").read_text() == "4711"
    assert passed_on(root) == PASSED_ON


def test_version_1_beside_it_passes_nothing_on(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(isolation, "_UNIFIED", root.parent)
    isolation.enter_cgroup("trainyard")
    assert passed_on(root) == ""
