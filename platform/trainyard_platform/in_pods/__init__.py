"""What Trainyard puts into the pods of a runtime that asks for it: docs/adr/0022.

A runtime with the annotation `trainyard.dev/last-words: python` gets into each
of its containers `node` a module that every Python there reads as it starts,
`sitecustomize.py` beside this one. Its text is an annotation of the pod, and a
volume shows that as a file: no image, no ConfigMap and no further right.
"""

from pathlib import Path
from typing import Any, Final

from trainyard_api import names

PYTHON: Final = "python"
"""The value of the annotation that asks for it."""
MODULE: Final = Path(__file__).with_name("sitecustomize.py")
FOLDER: Final = "/etc/trainyard/python"
_TEXT_ANNOTATION: Final = f"{names.OWN_PREFIX}sitecustomize.py"
_VOLUME: Final = "trainyard-python"
_PATH: Final = "PYTHONPATH"


def add(manifest: dict[str, Any]) -> None:
    """Put the module into the pods of the runtime, if that asks for it."""
    asked = (manifest["metadata"].get("annotations") or {}).get(names.LAST_WORDS_ANNOTATION)
    if asked is None:
        return
    for job in manifest["spec"]["template"]["spec"]["replicatedJobs"]:
        template = job["template"]["spec"]["template"]
        containers = [one for one in template["spec"]["containers"] if one.get("name") == names.NODE]
        if not containers:
            continue
        template.setdefault("metadata", {}).setdefault("annotations", {})[_TEXT_ANNOTATION] = (
            MODULE.read_text(encoding="utf-8")
        )
        template["spec"].setdefault("volumes", []).append(_volume())
        for container in containers:
            container.setdefault("volumeMounts", []).append(
                {"name": _VOLUME, "mountPath": FOLDER, "readOnly": True}
            )
            _first_in_path(container.setdefault("env", []))


def _volume() -> dict[str, Any]:
    source = {"fieldPath": f"metadata.annotations['{_TEXT_ANNOTATION}']"}
    return {"name": _VOLUME, "downwardAPI": {"items": [{"path": MODULE.name, "fieldRef": source}]}}


def _first_in_path(env: list[dict[str, Any]]) -> None:
    for variable in env:
        if variable.get("name") == _PATH and "value" in variable:
            variable["value"] = f"{FOLDER}:{variable['value']}"
            return
    env.append({"name": _PATH, "value": FOLDER})
