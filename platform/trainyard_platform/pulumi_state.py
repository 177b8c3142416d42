"""What Pulumi's state says about a stack, as `pulumi stack export` prints it: pure."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

Json = Mapping[str, Any]

_PREFIX: Final = "kubernetes:"


def objects(state: Json) -> Iterator[Json]:
    """The resources that are objects of a cluster, in the order of the state."""
    return (one for one in state["deployment"]["resources"] if _is_object(one))


def deleted_with(state: Json) -> Mapping[str, str]:
    """By URN, the resource whose deletion deletes it, such as a namespace."""
    resources = state["deployment"].get("resources") or ()
    return {each["urn"]: each["deletedWith"] for each in resources if each.get("deletedWith")}


def _is_object(resource: Json) -> bool:
    return (
        bool(resource.get("custom"))
        and str(resource["type"]).startswith(_PREFIX)
        and "kind" in (resource.get("inputs") or {})
    )
