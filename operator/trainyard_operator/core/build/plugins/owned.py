"""Metadata that every child of a TrainJob has.

Called by the plugins that build children.
"""

from __future__ import annotations

from typing import Any

from trainyard_api import names

from ...model import TrainJob


def metadata(trainjob: TrainJob, suffix: str = "") -> dict[str, Any]:
    """Name, namespace and owner of a child: the TrainJob's name with the suffix, and the TrainJob itself."""
    owner = {
        "apiVersion": names.TRAINER_API_VERSION,
        "kind": names.TRAINJOB,
        "name": trainjob.name,
        "uid": trainjob.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }
    return {"name": f"{trainjob.name}{suffix}", "namespace": trainjob.namespace, "ownerReferences": [owner]}
