"""The copy of the stack file that Pulumi works with on a sandbox."""

import yaml

from trainyard_sandbox import pulumi
from trainyard_sandbox.paths import PROJECT, Instance

CHECKED_IN = (PROJECT / "stacks" / "Pulumi.sandbox.yaml").read_text()


def copy(instance: Instance, kubernetes: str) -> str:
    with open(pulumi.environment(instance, kubernetes)["PULUMI_OPTION_CONFIG_FILE"]) as file:
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
    settings |= {"volcano": {"enabled": False}, "coscheduling": {"enabled": False}}
    assert yaml.safe_load(copy(Instance("b", tmp_path), "1.36")) == wanted
