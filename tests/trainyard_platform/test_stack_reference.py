"""The page about stack files has each key of the settings."""

import re
from functools import cache

from tests.support.checked_in import ROOT, hold
from trainyard_platform.stack import reference


@cache
def rows() -> dict[str, tuple[str, str, str]]:
    """Type, default and description of each key."""
    return {
        key: (kind, default, text)
        for key, kind, default, text in re.findall(
            r"^\| `([^`]+)` \| ([^|]*) \| ([^|]*) \| (.*) \|$", reference.page(), re.MULTILINE
        )
    }


def test_the_page_that_is_checked_in_is_current() -> None:
    hold(ROOT / "docs/reference/stack.md", reference.page())


ROWS = {
    "networkPolicies": ("boolean", "`true`"),
    "operator.image": ("image", ""),
    "artifacts.images": ("list of image", ""),
    "operator.replicas": ("integer from 1 to 2", "`1`"),
    "operator.resources": ("object", ""),
    "operator.resources.cpu": ("quantity", "`100m`"),
    "operator.imagePullPolicy": ("`Always`, `IfNotPresent`, `Never`", "`IfNotPresent`"),
    "kueue.resources.cpu": ("quantity", "`500m`"),
    "kueue.waitForPodsReady.timeout": ("duration", "`30m`"),
    "nodePools.<name>.provider": ("`existing`, `kwok`, `karpenter`, `eks`, `gke`, `aks`", "*required*"),
    "nodePools.<name>.taints[].key": ("string", "*required*"),
    "kueue.values": ("object", ""),
}


def test_a_row_says_what_a_key_takes_and_what_it_is_if_left_out() -> None:
    assert {key: row[:2] for key, row in rows().items() if key in ROWS} == ROWS


def test_the_same_kind_of_part_may_have_other_defaults_elsewhere() -> None:
    cpu = {key: row[1] for key, row in rows().items() if key.endswith(".resources.cpu")}
    assert (cpu["jobset.resources.cpu"], cpu["kueue.resources.cpu"]) == ("`250m`", "`500m`")


def test_a_text_in_angle_brackets_is_read_and_not_taken_for_a_tag() -> None:
    *_, text = rows()["artifacts.folder"]
    assert text == (
        "With source folder: folder with the files &lt;artifact>/&lt;version>/&lt;path>, "
        "relative to Pulumi.yaml."
    )
