"""A rule for the API server: CEL besides its Python, or why it needs the webhook.

A rule's CEL speaks about one `o`bject with its `jobs`, one `j`ob or one
`c`ontainer, taken apart here as `manifest` does it, and gives what its Python
gives: a list of texts, each the path of a field and a sentence. `params.data`
has the parameters, see `cluster.data`. It uses only the CEL of Kubernetes
1.32. What an optional index (`[?...]`) finds is made `dyn` again before it is
passed to a function with overloads: the type checker would assume the first
overload's type, and only a cluster shows that.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from trainyard_api import names

from .images import DEFAULT_REGISTRY


class Of(StrEnum):
    """What an expression is about."""

    OBJECT = "object"
    """`o`, the object, and `jobs`, its ReplicatedJobs in lists: those of a runtime are `jobs[0]`."""
    JOB = "job"
    """`j`: path, name, step, value, patch (whether it is one), pod, podPath."""
    CONTAINER = "container"
    """`c`: path, value, trains, resources, resourcesPath, security, podSecurity, patch."""
    IMAGE = "image"
    """`i`, the image of a container that has one: path, text, repository, tagged, tag, digest."""


@dataclass(frozen=True, slots=True)
class Cel:
    """An expression whose value is a list of texts, empty where the rule is met."""

    of: Of
    wrong: str


@dataclass(frozen=True, slots=True)
class Webhook:
    """A rule that admission policies cannot enforce: the operator's webhook runs its Python."""

    why: str
    """What CEL cannot express, as a sentence without a full stop."""


def quoted(text: str) -> str:
    """The text as a literal of CEL."""
    return json.dumps(text, ensure_ascii=False)


def messages(parts: Sequence[Cel], root: str, jobs: str) -> str:
    """One text with a line for each thing that is wrong with the object `root`, whose jobs are in `jobs`."""
    return f" + {_NEWLINE} + ".join(_over(part, root, jobs) for part in parts)


def jobs(root: str) -> str:
    """The ReplicatedJobs that an object brings, in lists: one of a runtime, one for each patch of a TrainJob.

    One more list has a job with only a TrainJob's trainer and initializers as containers.
    """
    patch = _map(
        path="'spec.runtimePatches[' + string(n) + '].trainingRuntimeSpec'",
        spec="patch.?trainingRuntimeSpec.orValue({})",
        patch="true",
    )
    runtime = _map(path="'spec'", spec=f"{root}.?spec.orValue({{}})", patch="false")
    specs = (
        f"({root}.kind == {quoted(names.TRAINJOB)} ? "
        f"{root}.?spec.?runtimePatches.orValue([]).transformList(n, patch, {patch}) : [{runtime}])"
    )
    own = _map(
        path="'spec'",
        name="''",
        step="''",
        value="{}",
        patch="true",
        pod="{}",
        podPath="'spec'",
        containers=f"[{_own(root)}]",
    )
    return f"{specs}.map(s, {_JOBS}) + [[{own}]]"


def _map(**entries: str) -> str:
    """A map whose values may have any type, each made `dyn`: CEL requires equal types."""
    return "{" + ", ".join(f"'{key}': dyn({value})" for key, value in entries.items()) + "}"


def _container(path: str, trains: str, resources: str, **more: str) -> str:
    """The container `k`."""
    return _map(
        path=path,
        value="k",
        trains=trains,
        resources=f"k.?{resources}.orValue({{}})",
        resourcesPath=f"{path} + '.{resources}'",
        security="k.?securityContext.orValue({})",
        **more,
    )


_NEWLINE: Final = r"'\n'"
_STEP: Final = f"r.?template.?metadata.?labels[?{quoted(names.ANCESTOR_LABEL)}].orValue('')"
_POD_PATH: Final = "s.path + '.template.spec.replicatedJobs[' + string(i) + '].template.spec.template.spec'"
_CONTAINERS: Final = (
    "['initContainers', 'containers'].map(key, pod[?key].orValue([]).transformList(p, k, {}))"
).format(
    _container(
        f"{_POD_PATH} + '.' + key + '[' + string(p) + ']'",
        f"key == 'containers' && k.name == {quoted(names.NODE)} "
        f"&& {_STEP} == {quoted(names.ANCESTOR_TRAINER)}",
        "resources",
        podSecurity="pod.?securityContext.orValue({})",
        patch="s.patch",
    )
)
_JOB: Final = _map(
    path="s.path + '.template.spec.replicatedJobs[' + string(i) + ']'",
    name="r.name",
    step=_STEP,
    value="r",
    patch="s.patch",
    pod="pod",
    podPath=_POD_PATH,
    containers=_CONTAINERS,
)
_JOBS: Final = (
    "s.spec.?template.?spec.?replicatedJobs.orValue([]).transformList(i, r, "
    f"[dyn(r.?template.?spec.?template.?spec.orValue({{}}))].map(pod, {_JOB})[0])"
)
"""The jobs of `s`: spec, its path, and whether it is a patch."""

_BARE: Final = (
    f"!bare.contains('/') ? '{DEFAULT_REGISTRY}/library/' + bare : bare.split('/')[0].contains('.') "
    f"|| bare.split('/')[0].contains(':') || bare.split('/')[0] == 'localhost' ? bare : "
    f"'{DEFAULT_REGISTRY}/' + bare"
)
_IMAGE: Final = (
    "[c.value.image.split('@')[0]].map(full, [full.lastIndexOf(':') > full.lastIndexOf('/')].map(tagged, "
    "[tagged ? full.substring(0, full.lastIndexOf(':')) : full].map(bare, {})[0])[0])"
).format(
    _map(
        path="c.path + '.image'",
        text="c.value.image",
        repository=_BARE,
        tagged="tagged",
        tag="tagged ? full.substring(full.lastIndexOf(':') + 1) : ''",
        digest="c.value.image.contains('@') ? c.value.image.substring(c.value.image.indexOf('@') + 1) : ''",
    )
)
"""The image of `c`, taken apart as `images.parse` does it, as a list of one."""


def _own(root: str) -> str:
    places = (("trainer", "true"), ("initializer.?dataset", "false"), ("initializer.?model", "false"))
    lists = []
    for place, trains in places:
        path = quoted(f"spec.{place.replace('.?', '.')}")
        container = _container(path, trains, "resourcesPerNode", podSecurity="{}", patch="true")
        lists.append(f"{root}.?spec.?{place}.optMap(k, [{container}]).orValue([])")
    return " + ".join(lists)


def _over(part: Cel, root: str, jobs: str) -> str:
    """What an expression finds in everything that it is about, in lines."""
    lines = f"({part.wrong.strip()}).join({_NEWLINE})"
    if part.of is Of.OBJECT:
        return f"[{root}].map(o, [{jobs}].map(jobs, {lines})[0])[0]"
    if part.of is Of.IMAGE:
        lines = f"!has(c.value.image) ? '' : {_IMAGE}.map(i, {lines})[0]"
    if part.of is not Of.JOB:
        lines = _lines("j.containers", "g", _lines("g", "c", lines))
    return _lines(jobs, "l", _lines("l", "j", lines))


def _lines(of: str, variable: str, lines: str) -> str:
    return f"{of}.map({variable}, {lines}).join({_NEWLINE})"
