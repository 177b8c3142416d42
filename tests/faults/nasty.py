"""TrainJobs and runtimes as large and as nasty as admission may allow: the same ones for a seed and a number.

Each shape makes one thing as large as `room` bytes of JSON let it be. What
admission rejects is made again with less room (`Case.smaller`), so that nothing
here repeats what admission allows.
"""

import json
import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from tests.support import generated as api
from tests.support.nasties import NASTY, nasty
from trainyard_api.json_types import Manifest
from trainyard_api.names import RUNTIME_KINDS
from trainyard_api.webhook_paths import HOLD_TRAINJOB, MUTATE_TRAINJOB, POLICIES, VALIDATE

ALL = 10_000
"""Cases of a whole run."""
OF_TRAINJOBS = (MUTATE_TRAINJOB, HOLD_TRAINJOB, f"{VALIDATE}trainjob", f"{POLICIES}trainjob")
"""Paths of the webhooks that judge TrainJobs."""
OF_RUNTIMES = tuple(
    f"{path}{kind.lower()}" for path in (VALIDATE, POLICIES) for kind in sorted(RUNTIME_KINDS)
)
ROOM = 256 * 1024
"""Bytes of JSON that admission allows a TrainJob, and a runtime."""
HEADROOM = 4096
"""Bytes for what a shape has around its list."""
TEXTS = (
    "\u202e\U0001f4a5\ufdd0\u00e9",
    "\x01\x1b[31m\x7f",
    "'$(reboot)`\";--",
    "$(A)$(B)$((C)$$(",
    "%s%n{0}{{.x}}${y}",
    "(a+)+$^[[:alpha:]]*",
    "a" * 60 + "!",
    "../../etc/passwd",
    "null",
    "- &a [*a]\n---\n!!python/object",
)
"""What breaks those who take text for something else."""
QUANTITIES = (
    "1",
    "1500m",
    "0.000000001",
    "1e3",
    "1E",
    "9223372036854775807",
    "1." + "0" * 50,
    "0",
    "3n",
    "7Ti",
)
STATES = ("Ready", "Complete")
ANCESTOR = {"labels": {api.ANCESTOR: "trainer"}}

Pair = tuple[Manifest, Manifest]
"""Spec of a runtime, and of a TrainJob less its `runtimeRef`; with labels and annotations as `metadata`."""


@dataclass(frozen=True)
class Case:
    """A TrainJob and its runtime, made with some room."""

    seed: int
    number: int
    room: int

    @property
    def shape(self) -> str:
        """The name of what is large."""
        return list(SHAPES)[self.number % len(SHAPES)]

    @property
    def smaller(self) -> "Case":
        """The same with less room."""
        return replace(self, room=self.room // 2)

    def pair(self) -> Pair:
        """The specs."""
        return SHAPES[self.shape](chance(self.seed, self.number), self.room)


def case(seed: int, number: int) -> Case:
    """The case of this number; one of three has all the room that admission allows."""
    return Case(seed, number, ROOM // chance(seed, number, "room").choice((1, 4, 32)))


def chance(*of: Any) -> random.Random:
    """What always draws the same for the same."""
    return random.Random("/".join(map(str, of)))  # noqa: S311 - no secret is drawn


def many(room: int, item: Callable[[int], Any], most: int = 1 << 17) -> list[Any]:
    """So many items, but `most` at most, that they fill the room. All must be about equally long."""
    size = len(json.dumps(item(1 << 16), ensure_ascii=False).encode()) + 1
    return [item(number) for number in range(max(1, min(most, (room - HEADROOM) // size)))]


def word(number: int) -> str:
    return f"w{number:05x}"


def container(name: str = "node", **fields: Any) -> Manifest:
    return {"name": name, "image": "registry.example/train:1", **fields}


def replicated(name: str, *containers: Any, metadata: Any = None, **pod: Any) -> Manifest:
    """A ReplicatedJob; without containers a pod that says nothing of them."""
    spec = {**({"containers": list(containers)} if containers else {}), **pod}
    template = {"spec": {"template": {"spec": spec}}}
    return {"name": name, "template": template | ({"metadata": metadata} if metadata else {})}


def runtime(*jobs: Any, policy: Any = None, **fields: Any) -> Manifest:
    """A runtime of these ReplicatedJobs; of one plain one if there are none."""
    wanted = list(jobs) or [replicated("node", container(), metadata=ANCESTOR)]
    return {"mlPolicy": policy or {"numNodes": 1}, "template": {"spec": {"replicatedJobs": wanted}}, **fields}


def patch(number: int, *jobs: Any) -> Manifest:
    manager = f"{'a.' * 100}example.com/{number}"
    return {"manager": manager, "trainingRuntimeSpec": {"template": {"spec": {"replicatedJobs": list(jobs)}}}}


def patched(*jobs: Any) -> Manifest:
    """A TrainJob with a patch of these ReplicatedJobs, and as many small ones as the CRD allows."""
    small = [patch(n, replicated("node", metadata={"labels": {"x": str(n)}})) for n in range(1, 16)]
    return {"runtimePatches": [patch(0, *jobs), *small]}


def variables(draw: random.Random, room: int) -> Pair:
    """Tens of thousands of variables, in containers of ReplicatedJobs that only the patch knows."""
    number = draw.choice((1, 8, 32))
    listed = many((room - 8 * HEADROOM) // number, lambda n: {"name": word(n)}, most=64 * 128)
    held = [listed[start : start + 128] for start in range(0, len(listed), 128)]
    jobs = [
        replicated(f"r{n}", *({"name": f"c{m}", "env": env} for m, env in enumerate(held)))
        for n in range(number)
    ]
    return runtime(policy={"torch": {}}), patched(*jobs)


def selectors(draw: random.Random, room: int) -> Pair:
    """A node selector, or annotations, of tens of thousands of entries, for a large runtime."""
    entries = dict(many(room - 4 * HEADROOM, lambda n: (word(n), "")))
    which = draw.choice(
        [replicated("node", nodeSelector=entries), replicated("node", metadata={"annotations": entries})]
    )
    return affinities(draw, room)[0], patched(which)


def affinities(draw: random.Random, room: int) -> Pair:
    """A runtime with thousands of terms, each of which says nothing."""
    terms = many(room, lambda n: {"weight": 1, "preference": {"matchFields": [{"key": "", "operator": ""}]}})
    affinity = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": terms}}
    node = replicated("node", container(), metadata=ANCESTOR, affinity=affinity)
    return runtime(node), {"trainer": {"args": [draw.choice(TEXTS)]}}


def texts(draw: random.Random, room: int) -> Pair:
    """Arguments and values of hostile texts."""
    text = "".join(draw.choice(TEXTS) for _ in range(max(1, room // 2 // 20 // 128)))
    env = [{"name": f"E{n}", "value": draw.choice(TEXTS)} for n in range(128)]
    trainer = {"args": [text] * 128, "command": ["sh", "-c", draw.choice(TEXTS)], "env": env}
    return runtime(policy={"torch": {}}), {"trainer": trainer}


def volumes(draw: random.Random, room: int) -> Pair:
    """Thousands of volumes, each mounted."""
    held = many(room // 2, lambda n: {"name": word(n), "emptyDir": {}}, most=2000)
    mounts = [{"name": volume["name"], "mountPath": f"/{volume['name']}"} for volume in held]
    node = replicated("node", container(volumeMounts=mounts), metadata=ANCESTOR, volumes=held)
    return runtime(node, policy={"torch": {}}), {"trainer": {"numNodes": draw.choice((1, 10_000))}}


def gangs(draw: random.Random, room: int) -> Pair:
    """As many ReplicatedJobs as may be, each after as many others as may be, with gang schedulers."""
    env = many(room // 32 - HEADROOM // 8, lambda n: {"name": word(n), "value": ""})
    jobs = [
        replicated(f"n{n}", container(env=env))
        | {"dependsOn": [{"name": f"n{m}", "status": draw.choice(STATES)} for m in range(n)[-5:]]}
        for n in range(31)
    ]
    groups: Manifest = {
        name: {} for name in draw.choice((["coscheduling"], ["volcano"], ["coscheduling", "volcano"]))
    }
    node = replicated("node", container(), metadata=ANCESTOR)
    return runtime(*jobs, node, podGroupPolicy=groups), {"trainer": {"numNodes": 10_000}}


def hosts(draw: random.Random, room: int) -> Pair:
    """An MPI job whose list of hosts is as long as can be."""
    nodes = 10_000 * room // ROOM
    policy = {"mpi": {"numProcPerNode": draw.choice((1, 2**31 - 1)), "runLauncherAsNode": True}}
    launcher = replicated("launcher", container(), metadata=ANCESTOR)
    node = replicated("node", container())
    return runtime(launcher, node, policy=policy), {"trainer": {"numNodes": nodes}}


def amounts(draw: random.Random, room: int) -> Pair:
    """Hundreds of resources with quantities at the edge of what can be read."""
    entries = dict(many(room, lambda n: (f"example.com/{word(n)}", draw.choice(QUANTITIES)), most=300))
    wanted = {"limits": entries, "requests": entries}
    return runtime(podGroupPolicy={"coscheduling": {}}), {"trainer": {"resourcesPerNode": wanted}}


def names(draw: random.Random, room: int) -> Pair:
    """Names as long as can be, and uris; suspended."""
    long = "n" * min(253, room // 256)
    uri = {"storageUri": "x://" + draw.choice(TEXTS) * 20, "secretRef": {"name": long}}
    mounts = [{"name": "initializer", "mountPath": "/workspace"}]
    steps = [
        replicated(step, container(step, volumeMounts=mounts), metadata={"labels": {api.ANCESTOR: step}})
        for step in ("dataset-initializer", "model-initializer")
    ]
    node = replicated("node", container(), metadata=ANCESTOR, serviceAccountName=long, subdomain=long)
    job = {"initializer": {"dataset": uri, "model": uri}, "suspend": True, "activeDeadlineSeconds": 2**62}
    return runtime(*steps, node), job


def grammar(draw: random.Random, room: int) -> Pair:
    """What Hypothesis makes of all that the API knows, with arguments that fill the room."""
    number = draw.randrange(1 << 32)
    spec = api.drawn_of(api.runtimes(), number)
    job = api.drawn_of(api.trainjobs("of a name"), number)
    args = many(room, lambda n: f"{word(n)}{draw.choice(TEXTS)}", most=128)
    return spec, {**job, "trainer": {"args": args, **job.get("trainer", {})}}


def tables(draw: random.Random, _: int) -> Pair:
    """What is meant to cost the webhooks as much as it can, one of a list."""
    of, name = draw.choice(NASTY)
    made = nasty(of, name)
    marks = {key: made["metadata"][key] for key in ("labels", "annotations") if key in made["metadata"]}
    spec = {"metadata": marks} | {key: value for key, value in made["spec"].items() if key != "runtimeRef"}
    return (spec, {}) if of == "runtime" else (runtime(), spec)


SHAPES: dict[str, Callable[[random.Random, int], Pair]] = {
    shape.__name__: shape
    for shape in (
        variables,
        selectors,
        affinities,
        texts,
        volumes,
        gangs,
        hosts,
        amounts,
        names,
        grammar,
        tables,
    )
}
