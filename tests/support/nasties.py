"""Runtimes and TrainJobs that the webhooks' door lets in, and that are meant to cost as much as they can."""

from __future__ import annotations

import itertools
import json
import string
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import Any, Final

from tests.support.rule_examples import changed
from trainyard_api import json_reader, names
from trainyard_api.json_types import Json

SIZE: Final = 250 * 1000
"""Characters of JSON, a little less than the door lets in."""
VALUES: Final = 14_900
"""Entries of objects and items of lists, a little less."""
CONTAINERS: Final = 490
AMOUNTS: Final = 1_990
LONG: Final = "x" * 4000

_JOBS: Final = "template.spec.replicatedJobs"
_POD: Final = f"{_JOBS}[0].template.spec.template.spec"


def words() -> Iterator[str]:
    """Short names, each once."""
    lengths = (itertools.product(string.ascii_lowercase, repeat=n) for n in itertools.count(1))
    return ("".join(word) for word in itertools.chain.from_iterable(lengths))


def many(item: Callable[[str], Any], share: float = 1.0, most: int = VALUES) -> list[Any]:
    """As many items, each of a name of its own, as a share of what may be there."""
    items: list[Any] = []
    size, values = share * SIZE, share * VALUES
    for word in itertools.islice(words(), most):
        made = item(word)
        size -= len(json.dumps(made)) + 1
        values -= 1 + json_reader.number_of_values(made)
        if min(size, values) < 0:
            break
        items.append(made)
    return items


def named(share: float = 1.0, **more: Any) -> list[Any]:
    return many(lambda word: {"name": word, **more}, share)


def keyed(value: Any, key: str = "{}", most: int = VALUES) -> dict[str, Any]:
    return {key.format(word): value for word in many(str, 0.5, most)}


IN_A_CONTAINER: Final[Mapping[str, Callable[[], Json]]] = {
    "variables": lambda: {"env": named()},
    "variables of two sources": lambda: {"env": named(value="x", valueFrom={"a": {}, "b": {}})},
    "variables of secrets": lambda: {"env": many(lambda word: {"name": f"{word}_TOKEN", "value": "hf_"})},
    "arguments": lambda: {"args": many(str)},
    "the beginning of a key": lambda: {"command": [f"-----BEGIN {'A ' * (SIZE // 2)}"]},
    "a long image": lambda: {"image": f"{'a/' * (SIZE // 2)}:"},
    "ports": lambda: {"ports": named(containerPort=1, hostPort=1)},
    "limits": lambda: {"resources": {"limits": keyed("1.5", "{0}.io/{0}", AMOUNTS)}},
    "requests": lambda: {"resources": {"requests": keyed("1", "{0}.io/{0}", AMOUNTS)}},
    "an amount that is none": lambda: {"resources": {"limits": {"cpu": "1" * SIZE}}},
    "mounts": lambda: {"volumeMounts": named(mountPath="/x")},
    "capabilities": lambda: {"securityContext": {"capabilities": {"add": many(str)}}},
    "unknown fields": lambda: keyed({}),
    "an unknown long field": lambda: {"ab" * (SIZE // 2): 1},
}
IN_A_POD: Final[Mapping[str, Callable[[], Json]]] = {
    "containers": lambda: {"containers": many(lambda word: {"name": word}, most=CONTAINERS)},
    "privileged containers": lambda: {
        "initContainers": many(
            lambda word: {"name": word, "image": "a:latest", "securityContext": {"privileged": True}},
            most=CONTAINERS,
        )
    },
    "volumes": lambda: {"volumes": named()},
    "paths of the host": lambda: {"volumes": named(hostPath={"path": "/"})},
    "a selector": lambda: {"nodeSelector": keyed("a")},
    "tolerations": lambda: {"tolerations": many(lambda word: {"key": word})},
    "volumes, and mounts of all": lambda: {
        "volumes": named(0.5),
        "containers": [{"name": "node", "volumeMounts": named(0.5)}],
    },
    "long volumes, and mounts of none": lambda: {
        "volumes": [{"name": f"{number}{LONG}"} for number in range(50)],
        "containers": [{"name": "node", "volumeMounts": [{"name": f"m{number}"} for number in range(800)]}],
    },
    "long names": lambda: {
        "volumes": [{"name": "ab" * (SIZE // 4)}],
        "containers": [{"name": "node", "volumeMounts": [{"name": "ba" * (SIZE // 4)}]}],
    },
}
IN_METADATA: Final[Mapping[str, Callable[[], Json]]] = {
    "labels": lambda: {"labels": keyed("!")},
    "a long framework": lambda: {"labels": {names.FRAMEWORK_LABEL: "troch" * (SIZE // 5)}},
    "annotations": lambda: {"annotations": keyed("!", "{0}/")},
    "exceptions of no rule": lambda: {"annotations": keyed("", "policy.trainyard.dev/imag{}-digst")},
    "a long exception": lambda: {
        "annotations": {"policy.trainyard.dev/image-tag": f"until=2026-12-31;x{' ' * SIZE}y"}
    },
}
IN_A_RUNTIME: Final[Mapping[str, Callable[[], Json]]] = {
    "claims, and mounts of all": lambda: {
        "mlPolicy.numNodes": 9,
        "template.spec.volumeClaimPolicies": many(
            lambda word: {"templates": [{"metadata": {"name": word}, "spec": {"accessModes": []}}]}, 0.5
        ),
        f"{_POD}.containers[0].volumeMounts": named(0.5),
    },
    "policies": lambda: {"mlPolicy": keyed({})},
    "dependencies": lambda: {f"{_JOBS}[0].dependsOn": named()},
    "jobs": lambda: {_JOBS: [_full(word) for word in itertools.islice(words(), 32)]},
}
IN_A_TRAINJOB: Final[Mapping[str, Callable[[], Json]]] = {
    "variables of the trainer": lambda: {"trainer.env": named()},
    "amounts of the trainer": lambda: {
        "trainer.resourcesPerNode.limits": keyed("1.5", "{0}.io/{0}", AMOUNTS)
    },
    "patches": lambda: {
        "runtimePatches": [
            {
                "manager": f"{word}.io/x",
                "trainingRuntimeSpec": {"template": {"spec": {"replicatedJobs": [_full(word)]}}},
            }
            for word in itertools.islice(words(), 32)
        ]
    },
}


def _full(name: str) -> Json:
    pod = {"containers": [{"name": word} for word in itertools.islice(words(), 15)], "volumes": named(0.02)}
    return {"name": name, "template": {"spec": {"template": {"spec": pod}}}}


def _tables(of: str) -> Iterator[tuple[str, Callable[[], Json], str]]:
    above = "spec.runtimePatches[0].trainingRuntimeSpec" if of == "trainjob" else "spec"
    for table, place in (
        (IN_A_CONTAINER, f"{above}.{_POD}.containers[0]"),
        (IN_A_POD, f"{above}.{_POD}"),
        (IN_METADATA, "metadata"),
        (IN_A_TRAINJOB if of == "trainjob" else IN_A_RUNTIME, "spec"),
    ):
        yield from ((name, made, place) for name, made in table.items())


NASTY: Final = tuple((of, name) for of in ("runtime", "trainjob") for name, _, _ in _tables(of))
"""All that there are: of `runtime` or `trainjob`, and what is much in it."""


@cache
def nasty(of: str, name: str) -> Json:
    """One of `NASTY`."""
    [(made, place)] = [(made, place) for known, made, place in _tables(of) if known == name]
    return changed(of, {f"{place}.{path}": value for path, value in made().items()})
