"""The copy of the stack file that Pulumi works with on a sandbox."""

from collections.abc import Collection

import yaml

from trainyard_sandbox import pulumi
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
