"""What Trainyard puts into the pods of a runtime that asks for it: docs/adr/0022.

Each container `node` of a runtime with the annotation
`trainyard.dev/last-words: python` gets a module that every Python there reads
as it starts: `sitecustomize.py` next to this one. Its text is an annotation of
the pod, and a volume shows that as a file: it needs no image, no ConfigMap and
no further permission.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from trainyard_api import names
from trainyard_api.errors import FieldPath
from trainyard_policies.rule import at

PYTHON: Final = "python"
"""The value of the annotation that asks for it."""
MODULE: Final = Path(__file__).with_name("sitecustomize.py")
_VOLUME: Final = "trainyard-python"
_PATH: Final = "PYTHONPATH"
_JOBS: Final = FieldPath("spec.template.spec.replicatedJobs")
_CONTAINERS: Final = ("template", "spec", "template", "spec", "containers")


def requested(manifest: dict[str, Any]) -> Any:
    """What the runtime asks for; None: nothing."""
    return _mapping(manifest["metadata"].get("annotations")).get(names.LAST_WORDS_ANNOTATION)


def add(manifest: dict[str, Any]) -> None:
    """Put the module into the pods of the runtime, if that asks for it."""
    if requested(manifest) is None:
        return
    for job in manifest["spec"]["template"]["spec"]["replicatedJobs"]:
        template = job["template"]["spec"]["template"]
        containers = [
            container for container in template["spec"]["containers"] if container.get("name") == names.NODE
        ]
        if not containers:
            continue
        metadata = _mapping(template.get("metadata"))
        annotations = {
            **_mapping(metadata.get("annotations")),
            names.MODULE_ANNOTATION: MODULE.read_text("utf-8"),
        }
        template["metadata"] = {**metadata, "annotations": annotations}
        template["spec"]["volumes"] = [*_list(template["spec"].get("volumes")), _volume()]
        for container in containers:
            mount = {"name": _VOLUME, "mountPath": names.MODULE_FOLDER, "readOnly": True}
            container["volumeMounts"] = [*_list(container.get("volumeMounts")), mount]
            container["env"] = _first_in_path(_list(container.get("env")))


def unknown_paths(manifest: Mapping[str, Any]) -> Iterator[FieldPath]:
    """Where a container `node` gets its `PYTHONPATH` from elsewhere: nothing can be put in front of that."""
    for number in range(len(_list(at(manifest, _JOBS)))):
        containers = _JOBS.index(number).child(*_CONTAINERS)
        for position, container in enumerate(_list(at(manifest, containers))):
            if _mapping(container).get("name") != names.NODE:
                continue
            env = containers.index(position).child("env")
            for index, variable in enumerate(_list(container.get("env"))):
                if _mapping(variable).get("name") == _PATH and variable.get("valueFrom") is not None:
                    yield env.index(index).child("valueFrom")


def _volume() -> dict[str, Any]:
    source = {"fieldPath": f"metadata.annotations['{names.MODULE_ANNOTATION}']"}
    return {"name": _VOLUME, "downwardAPI": {"items": [{"path": MODULE.name, "fieldRef": source}]}}


def _first_in_path(env: list[Any]) -> list[Any]:
    """The variables, with the module's folder in their path: at the front, unless it is there already."""
    python_path = next((variable for variable in env if _mapping(variable).get("name") == _PATH), None)
    if python_path is None:
        return [*env, {"name": _PATH, "value": names.MODULE_FOLDER}]
    value = python_path.get("value") or names.MODULE_FOLDER
    if names.MODULE_FOLDER not in value.split(":"):
        value = f"{names.MODULE_FOLDER}:{value}"
    return [{"name": _PATH, "value": value} if variable is python_path else variable for variable in env]


def _mapping(value: Any) -> dict[str, Any]:
    """The mapping; if it is not one, `trainyard lint` reports it with file and line."""
    return value if isinstance(value, dict) else {}


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
