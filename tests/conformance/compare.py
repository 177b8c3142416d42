"""What two controllers have made, so that only what they chose themselves can differ."""

import base64
import json
import re

from tests.support.live import CHILDREN
from trainyard_api import names

from .exceptions import OF_OPEN_MPI_5

NOBODY_CHOSE = ("creationTimestamp", "generation", "managedFields", "resourceVersion", "uid")
SNAPSHOT = "-runtime-snapshot"
"""The reference's copy of a runtime; ours keeps one ControllerRevision for all TrainJobs (docs/adr/0004)."""
OF_XGBOOST = "DMLC_"
KIND = re.compile(r"\b((?:Cluster)?TrainingRuntime)\.(trainer\.kubeflow\.org \")")
SHOWN = re.compile(r"(Invalid value: )([\[{].*?[\]}])(?=: [a-zA-Z])")
UNSUPPORTED = re.compile(r"spec\.runtimeRef: Invalid value: \{[^}]*\}: (?=unsupported runtime)")
SAME_AS_ABSENT = {"limits": {}, "readOnly": False, "requests": {}, "value": ""}
"""Fields that a Kubernetes API reads alike with this value and without it; so is any empty list."""

MARKS = ("annotations", "labels")


def normal(child):
    """A child of a TrainJob without what a cluster adds, what is ours alone, and the bytes of keys."""
    metadata = {key: value for key, value in child["metadata"].items() if key not in NOBODY_CHOSE}
    metadata["ownerReferences"] = [
        {key: value for key, value in owner.items() if key != "uid"} for owner in metadata["ownerReferences"]
    ]
    rest = {key: value for key, value in child.items() if key not in ("metadata", "status")}
    if child["kind"] == "Secret":
        rest["data"] = {key: shape(value) for key, value in rest["data"].items()}
    return without_open_mpi_5(
        xgboosts_share_last(without_empty(without_ours({**rest, "metadata": metadata})))
    )


def without_ours(value):
    """Without annotations and labels that are ours alone, of the child and of the pods in it."""
    if isinstance(value, dict):
        kept = {key: marks(item) if key in MARKS else without_ours(item) for key, item in value.items()}
        return {key: item for key, item in kept.items() if key not in MARKS or item}
    return [without_ours(item) for item in value] if isinstance(value, list) else value


def marks(value):
    return {key: item for key, item in (value or {}).items() if not is_ours(key)}


def is_ours(key):
    return key.startswith(names.OWN_PREFIX)


def shape(value):
    """Of a key, encoded: what kind of key it says it is, and how long it is."""
    text = base64.b64decode(value).decode()
    return re.match(r"-----[^-]+-----|\S+", text).group(), len(text)


def without_empty(value):
    """Without what says nothing: Go's types leave it out when they write, ours has it as it was given."""
    if isinstance(value, dict):
        return {
            key: without_empty(item)
            for key, item in value.items()
            if item != [] and SAME_AS_ABSENT.get(key, ...) != item
        }
    return [without_empty(item) for item in value] if isinstance(value, list) else value


def without_open_mpi_5(value):
    """Without the variables that only Open MPI 5 reads, which the reference does not set."""
    if isinstance(value, dict):
        return {key: without_open_mpi_5(item) for key, item in value.items()}
    if isinstance(value, list):
        return [without_open_mpi_5(item) for item in value if not is_of_open_mpi_5(item)]
    return value


def is_of_open_mpi_5(item):
    return isinstance(item, dict) and str(item.get("name")).startswith(OF_OPEN_MPI_5)


def xgboosts_share_last(value):
    """Two of Trainer's plugins write XGBoost's environment, and run in a random order."""
    if isinstance(value, dict):
        return {key: xgboosts_share_last(item) for key, item in value.items()}
    if isinstance(value, list):
        named = all(isinstance(item, dict) and "name" in item for item in value)
        ordered = sorted(value, key=lambda item: item["name"].startswith(OF_XGBOOST)) if named else value
        return [xgboosts_share_last(item) for item in ordered]
    return value


def plain(text):
    """The text of a refusal without what says nothing.

    A value that it shows has its fields in some order, and a patch the time
    at which a webhook saw it. A runtime that is missing is of a kind here and
    a resource there, as the reference itself says it from a cache and
    without. A kind of runtime that is unknown has no field path there.
    """
    text = KIND.sub(lambda found: f"{found[1].lower()}s.{found[2]}", text.rstrip())
    text = SHOWN.sub(lambda found: found[1] + json.dumps(untimed(json.loads(found[2])), sort_keys=True), text)
    return UNSUPPORTED.sub("", text)


def untimed(value):
    if isinstance(value, list):
        return [
            {k: v for k, v in one.items() if k != "time"} if isinstance(one, dict) else one for one in value
        ]
    return value


def differences(one, other, path=""):
    """Paths at which two values differ, deepest first found, each with both values."""
    if isinstance(one, dict) and isinstance(other, dict):
        found = {}
        for key in sorted({*one, *other}):
            found |= differences(one.get(key), other.get(key), f"{path}.{key}" if path else key)
        return found
    if isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        found = {}
        for index, pair in enumerate(zip(one, other, strict=True)):
            found |= differences(*pair, f"{path}[{index}]")
        return found
    return {} if one == other else {path: (one, other)}


def built(api):
    """What a controller has made, by TrainJob, then by kind and name."""
    found = {}
    for api_version, kind in CHILDREN:
        for child in api.list(api_version, kind):
            name = child["metadata"]["name"]
            owners = child["metadata"].get("ownerReferences", ())
            jobs = [owner["name"] for owner in owners if owner["kind"] == names.TRAINJOB]
            if jobs and not name.endswith(SNAPSHOT):
                found.setdefault(jobs[0], {})[f"{kind} {name}"] = normal(child)
    return found
