"""The copy of the stack file that Pulumi works with on a sandbox."""

import subprocess
from collections.abc import Collection
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest
import yaml

from trainyard_sandbox import pulumi
from trainyard_sandbox.errors import SandboxError
from trainyard_sandbox.parts import PARTS
from trainyard_sandbox.paths import PROJECT, Instance

CHECKED_IN = (PROJECT / "stacks" / "Pulumi.sandbox.yaml").read_text()


def copy(instance: Instance, kubernetes: str, parts: Collection[str] = PARTS) -> str:
    with open(pulumi.environment(instance, kubernetes, parts)["PULUMI_OPTION_CONFIG_FILE"]) as file:
        return file.read()


def test_it_is_the_stack_file_and_keeps_the_salt_that_pulumi_has_written(tmp_path) -> None:
    instance = Instance("a", tmp_path)
    assert copy(instance, "1.35") == CHECKED_IN
    path = instance.dir / "pulumi" / "Pulumi.sandbox.yaml"
    path.write_text(f"encryptionsalt: v1:abc\n{CHECKED_IN}")
    assert copy(instance, "1.35") == f"encryptionsalt: v1:abc\n{CHECKED_IN}"


@pytest.mark.parametrize(
    ("text", "error"),
    [
        pytest.param("config: [", "ParserError", id="no YAML"),
        pytest.param("config: {}", "KeyError", id="no settings"),
        pytest.param("", "TypeError", id="empty"),
        pytest.param("config: {trainyard:platform: []}", "AttributeError", id="a list of settings"),
    ],
)
def test_a_stack_file_that_cannot_be_read_is_named_with_the_way_out(tmp_path, text: str, error: str) -> None:
    file = tmp_path / "stacks" / "Pulumi.sandbox.yaml"
    file.parent.mkdir()
    file.write_text(text)
    with pytest.raises(SandboxError) as refused:
        copy(Instance("a", tmp_path), "1.35")
    assert str(refused.value) == f"{file} cannot be read ({error}): trainyard verify says what is wrong."


@pytest.fixture
def instance(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Instance:
    """A sandbox that nothing is made for yet."""
    monkeypatch.setenv("TRAINYARD_CACHE", str(tmp_path / "cache"))
    instance = Instance("a", tmp_path)
    instance.dir.mkdir(parents=True)
    (tmp_path / "Pulumi.yaml").write_text("name: trainyard\n")
    return instance


def tools(instance: Instance, *lines: str) -> Any:
    """A toolchain whose Pulumi does this."""
    engine = instance.project / "engine"
    engine.write_text("\n".join(["#!/bin/sh", *lines, ""]))
    engine.chmod(0o755)

    class Tools:
        def binary(self, name: str) -> Path:
            return engine

    return Tools()


def test_its_stack_is_created_with_its_own_passphrase_whatever_another_stack_needs(
    instance: Instance, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PULUMI_CONFIG_PASSPHRASE", "of another stack")
    pulumi.prepare(instance, tools(instance, f"env > {tmp_path}/environment"), "1.35", PARTS)
    lines = (tmp_path / "environment").read_text().splitlines()
    assert [line for line in lines if line.startswith("PULUMI_CONFIG_PASSPHRASE")] == [
        f"PULUMI_CONFIG_PASSPHRASE_FILE={instance.dir}/pulumi/passphrase"
    ]


def test_a_stack_whose_creation_was_interrupted_is_created_the_next_time_and_then_kept(
    instance: Instance,
) -> None:
    passphrase, state = instance.dir / "pulumi" / "passphrase", pulumi._state(instance, pulumi.STACK)
    with pytest.raises(SandboxError, match="Could not create the Pulumi stack 'sandbox'"):
        pulumi.prepare(instance, tools(instance, "exit 1"), "1.35", PARTS)
    first = passphrase.read_text()
    create = (f"mkdir -p {state.parent}", f"echo created >> {state}")
    for _ in range(2):
        pulumi.prepare(instance, tools(instance, *create), "1.35", PARTS)
        assert (passphrase.read_text(), state.read_text()) == (first, "created\n")


def test_its_charts_are_those_of_the_cache_that_is_used_now(tmp_path, monkeypatch) -> None:
    instance = Instance("a", tmp_path)
    instance.dir.mkdir(parents=True)
    for name in ("old", "new", "new"):
        monkeypatch.setenv("TRAINYARD_CACHE", str(tmp_path / name))
        pulumi._link_artifacts(instance)
        assert (tmp_path / ".sandbox" / "artifacts").readlink() == tmp_path / name / "artifacts"
    assert list(instance.dir.iterdir()) == []


def test_a_stack_file_that_names_no_kubernetes_stays_as_it_is(tmp_path) -> None:
    file = tmp_path / "stacks" / "Pulumi.sandbox.yaml"
    file.parent.mkdir()
    text = CHECKED_IN.replace('      version: "1.35"\n', "", 1)
    file.write_text(text)
    assert (text != CHECKED_IN, copy(Instance("a", tmp_path), "1.34")) == (True, text)


def test_its_state_is_in_the_folder_of_the_sandbox_whatever_that_is_called(tmp_path) -> None:
    folder = tmp_path / "my work #1 100%41?"
    folder.mkdir()
    instance = Instance("a", folder)
    url = urlsplit(pulumi.environment(instance, "1.35", PARTS)["PULUMI_BACKEND_URL"])
    assert (url.scheme, url.netloc, unquote(url.path), url.query, url.fragment) == (
        "file",
        "",
        str(instance.dir / "pulumi"),
        "metadata=skip",
        "",
    )


def test_its_commands_run_whatever_the_folder_of_the_sandbox_is_called(tmp_path) -> None:
    instance = Instance("a", tmp_path / "my $work `")
    engine = tmp_path / "pulumi"
    engine.write_text("#!/bin/sh\necho $2\n")
    engine.chmod(0o755)
    pulumi._write_commands(instance, engine)
    command = [str(instance.commands / "pulumi"), "stack", "a b"]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "a b\n"


def test_with_another_kubernetes_it_says_so_once_and_leaves_out_what_does_not_work_with_that(
    tmp_path, capsys
) -> None:
    wanted = yaml.safe_load(CHECKED_IN)
    settings = wanted["config"]["trainyard:platform"]
    settings["cluster"]["version"] = "1.34"
    for _ in range(2):
        assert yaml.safe_load(copy(Instance("a", tmp_path), "1.34")) == wanted
    assert capsys.readouterr().err == (
        "stacks/Pulumi.sandbox.yaml: cluster.version is not the sandbox's, so its copy of the file has 1.34\n"
    )
    settings["cluster"]["version"] = "1.36"
    settings["volcano"]["enabled"] = settings["coscheduling"]["enabled"] = False
    assert yaml.safe_load(copy(Instance("b", tmp_path), "1.36")) == wanted


def test_what_the_sandbox_has_not_is_left_out_in_its_place_until_it_is_there(tmp_path, capsys) -> None:
    instance = Instance("a", tmp_path)
    text = copy(instance, "1.35", ["volcano", "data-cache"])
    changed = [
        (number, old, new)
        for number, (old, new) in enumerate(zip(CHECKED_IN.split("\n"), text.split("\n"), strict=True))
        if old != new
    ]
    [(line, old, new)] = changed
    assert (CHECKED_IN.split("\n")[line - 2].strip(), old.strip(), new.strip()) == (
        "coscheduling:",
        "enabled: true",
        "enabled: false",
    )
    assert capsys.readouterr().err == (
        "stacks/Pulumi.sandbox.yaml: the sandbox has no coscheduling, so its copy of the file is without "
        "(`trainyard sandbox up --with coscheduling`)\n"
    )
    assert copy(instance, "1.35") == CHECKED_IN
    assert capsys.readouterr().err == ""


def test_without_the_data_cache_neither_it_nor_its_runtime_is_installed(tmp_path, capsys) -> None:
    wanted = yaml.safe_load(CHECKED_IN)
    settings = wanted["config"]["trainyard:platform"]
    settings["dataCache"]["enabled"] = False
    settings["runtimes"]["torch-distributed-with-cache"]["enabled"] = False
    text = copy(Instance("a", tmp_path), "1.35", ["volcano", "coscheduling"])
    assert yaml.safe_load(text) == wanted
    assert "the sandbox has no data-cache, so its copy" in capsys.readouterr().err
