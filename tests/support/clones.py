"""A folder that counts as a clone of Trainyard: what is in it is its own, with no catalog beneath."""

from pathlib import Path

from trainyard_api.places import Site


def clone_at(folder: Path) -> Site:
    """Give the folder what a clone is known by; its stacks and runtimes are for the test to write."""
    for name in ("platform/trainyard_platform", "stacks", "runtimes"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    (folder / "Pulumi.yaml").write_text("name: trainyard\nruntime: python\nmain: platform/\n")
    return Site(folder)
