"""A site's stack file as a sandbox can have it: pure.

Queues, tenants, quotas, runtimes and settings of controllers stay as the site has them. What only the
site's cluster has is replaced by what the sandbox has.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Final

from trainyard_api.json_types import copied

SETTINGS: Final = "trainyard:platform"
_CONTROLLERS: Final = ("jobset", "kueue", "operator")
_PARTS: Final = {"volcano": "volcano", "coscheduling": "coscheduling", "dataCache": "data-cache"}
"""Settings of controllers that a sandbox may be without, and the names of its parts."""
_OF_MACHINES: Final = ("cpu", "memory", "resources")
_OF_POOLS: Final = ("nodes", "accelerator", "zones", "taints", "nodeLabels", "quota")
"""What of a pool holds for simulated nodes too."""
_REGISTRIES: Final = ("docker.io", "ghcr.io", "nvcr.io", "registry.k8s.io")
"""Where images of the catalog and of the sandbox are from, by their names."""
_IMAGE: Final = ("image", "imagePullPolicy")


def completed(own: Mapping[str, Any], shipped: Mapping[str, Any]) -> dict[str, Any]:
    """The document of a site's own stack for the sandbox, with the shipped one's values where it has none.

    A stack needs few of the values with which `adapted` replaces a site's.
    """
    given = {key: value for key, value in own["config"][SETTINGS].items() if value is not None}
    theirs = shipped["config"][SETTINGS]
    both = {key: {**theirs[key], **given[key]} for key in (*_CONTROLLERS, "runtimes") if key in given}
    return {"config": {SETTINGS: {**theirs, **given, **both}}}


def adapted(
    site: Mapping[str, Any], sandbox: Mapping[str, Any], kubernetes: str, parts: Collection[str]
) -> tuple[dict[str, Any], list[str]]:
    """The document of the stack file, and a note on each thing that is not the site's.

    Args:
        site: The document as the site has it.
        sandbox: That of the sandbox's own stack, `completed` if the site has written it.
        kubernetes: The sandbox's version.
        parts: What the sandbox has beside the usual.
    """
    settings, theirs = copied(dict(site["config"][SETTINGS])), sandbox["config"][SETTINGS]
    notes = [
        f"cluster: only the identifier, on Kubernetes {kubernetes}; charts, CRDs and images are the sandbox's"
    ]
    identifier = (settings.get("cluster") or {}).get("identifier")
    settings["cluster"] = {**({"identifier": identifier} if identifier else {}), "version": kubernetes}
    settings["artifacts"] = theirs["artifacts"]
    notes += _controllers(settings, theirs, parts)
    if settings.pop("controllers", None):
        notes.append("controllers: left out, for their nodes and Secrets are the site's")
    for tenant in (settings.get("tenants") or {}).values():
        for key in ("externalSecrets", "pullSecrets"):
            tenant.pop(key, None)
    if settings.get("nodePools"):
        settings["nodePools"] = {name: _simulated(pool) for name, pool in settings["nodePools"].items()}
        notes.append(f"nodePools: {', '.join(settings['nodePools'])}: simulated, jobs on them end at once")
    if settings.get("accelerators"):
        settings["accelerators"] = {kind: {"devicePlugin": "shipped"} for kind in settings["accelerators"]}
    if settings.get("storage"):
        settings["storage"] = theirs["storage"]
    if settings.get("observability"):
        settings["observability"]["crds"] = "install"
    runtimes = settings["runtimes"] = dict(settings.get("runtimes") or {})
    for name, overlay in theirs["runtimes"].items():
        runtimes[name] = {**(runtimes.get(name) or {}), **_image(overlay)}
    parameters = (settings.get("policies") or {}).get("parameters") or {}
    if parameters.get("registries"):
        parameters["registries"] = [*parameters["registries"], *_REGISTRIES]
    return {"config": {SETTINGS: settings}}, notes


def _controllers(settings: dict[str, Any], theirs: Mapping[str, Any], parts: Collection[str]) -> list[str]:
    """Give the controllers the sandbox's images and sizes; a note on each that it lacks."""
    notes = []
    for part in _CONTROLLERS:
        own = settings.get(part) or {}
        if own or part != "kueue":
            settings[part] = {
                **own,
                "replicas": 1,
                "resources": theirs[part]["resources"],
                **_image(theirs[part]),
            }
    for key, part in _PARTS.items():
        if (settings.get(key) or {}).get("enabled"):
            settings[key] = theirs[key] if part in parts else {"enabled": False}
            if part not in parts:
                notes.append(f"{key}: the sandbox is without (`trainyard sandbox up --with {part}`)")
    return notes


def _image(overlay: Mapping[str, Any]) -> dict[str, Any]:
    return {key: overlay[key] for key in _IMAGE if key in overlay}


def _simulated(pool: Mapping[str, Any]) -> dict[str, Any]:
    """The pool with simulated nodes: as many, with the same resources, in one place."""
    machine = {key: value for key, value in pool["machine"].items() if key in _OF_MACHINES}
    simulated = {key: value for key, value in pool.items() if key in _OF_POOLS}
    levels = [
        {**level, "nodes": pool["nodes"]} for level in (pool.get("topology") or ())[:1] if pool["nodes"]
    ]
    return {"provider": "kwok", **simulated, "machine": machine, **({"topology": levels} if levels else {})}
