"""Values that no schema allows, and the places of an object to put them."""

import copy
import json
from collections.abc import Iterator
from typing import Any

from hypothesis import strategies as st

Path = tuple[str | int, ...]
"""The way to a place: keys, and positions in lists."""

JOB: dict[str, Any] = {
    "suspend": False,
    "activeDeadlineSeconds": 60,
    "trainer": {
        "numNodes": 2,
        "numProcPerNode": 1,
        "image": "i",
        "args": ["x"],
        "env": [{"name": "C", "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": "p"}}}],
        "resourcesPerNode": {"limits": {"cpu": 2.0}},
    },
    "initializer": {"dataset": {"storageUri": "hf://a", "secretRef": {"name": "s"}}},
    "runtimePatches": [
        {
            "trainingRuntimeSpec": {
                "template": {
                    "metadata": {"labels": {"x": "y"}},
                    "spec": {
                        "replicatedJobs": [
                            {
                                "name": "node",
                                "template": {
                                    "spec": {
                                        "template": {"spec": {"containers": [{"name": "node", "env": []}]}}
                                    }
                                },
                            }
                        ]
                    },
                }
            }
        }
    ],
}


DEEP = json.loads('{"a":' * 900 + "1" + "}" * 900)


JUNK = st.sampled_from(
    [
        None,
        "",
        "x" * 5000,
        "1e999999999",
        0,
        -1,
        2**31,
        2**63,
        1.5,
        True,
        [],
        [None],
        [[]],
        [1],
        {},
        {"a": None},
        DEEP,
    ]
)


def places(value: Any, path: Path = ()) -> Iterator[Path]:
    yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield from places(item, (*path, key))


def spoiled(value: Any, path: Path, junk: Any) -> Any:
    if not path:
        return junk
    result = copy.copy(value)
    result[path[0]] = spoiled(value[path[0]], path[1:], junk)
    return result
