"""What a cache's initializer may do: pure."""

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from trainyard_api import names
from trainyard_api.json_types import Manifest
from trainyard_policies.images import parse
from trainyard_policies.parameters import Parameters
from trainyard_policies.rules import host_access, privileges, volume_sources

from ...objects import rights
from ...objects.admission_policies import WRITES, bound, policy
from ...stack.data_cache import ACCOUNT, GROUP

SETS_NAME: Final = f"caches-need-no-devices.{names.POLICY_DOMAIN}"
SERVICES_NAME: Final = f"caches-stay-in-the-cluster.{names.POLICY_DOMAIN}"
_RESOURCES: Final = ("cpu", "memory", "ephemeral-storage")
"""What the pods of a cache may request: they run outside of the queues."""
_MOST_PODS: Final = 1_000
"""Of a cache: the controller of StatefulSets builds all pods of a set at once, before a quota counts them."""
_TEMPLATE: Final = "object.spec.leaderWorkerTemplate"
_TEMPLATES: Final = tuple(f"{_TEMPLATE}.?{template}" for template in ("leaderTemplate", "workerTemplate"))
_PODS: Final = tuple(f"{template}.?spec" for template in _TEMPLATES)
_CONTAINERS: Final = ("containers", "initContainers")
_BY_ITS_ACCOUNT: Final = [
    {
        "name": "by-a-cache-initializer",
        "expression": "request.userInfo.username.startsWith('system:serviceaccount:') "
        f"&& request.userInfo.username.endsWith(':{ACCOUNT}')",
    }
]


def policies(parameters: Parameters, images: Sequence[str] | None = None) -> Iterator[Manifest]:
    """What a tenant cannot do with the rights of the initializer, whose token its people can get.

    The rules about a TrainJob's pods do not see the pods of a LeaderWorkerSet.

    Args:
        parameters: Those of the rules about a TrainJob's pods.
        images: Registries, or repositories in them, that its pods use images from, and images with their
            tag or digest; None: all.
    """
    first, *others = (*_limits(parameters), *_sources(images))
    yield from bound(
        SETS_NAME,
        policy(
            ["leaderworkersets"],
            WRITES,
            *first,
            also=dict(others),
            group=(GROUP, "v1"),
            matchConditions=_BY_ITS_ACCOUNT,
        ),
    )
    yield from bound(
        SERVICES_NAME,
        policy(
            ["services"],
            WRITES,
            "object.spec.?type.orValue('ClusterIP') == 'ClusterIP' "
            "&& object.spec.?externalIPs.orValue([]).size() == 0",
            "spec: the Service of a data cache must be of type ClusterIP, without externalIPs: only pods of "
            "the cluster use it.",
            group=("", "v1"),
            matchConditions=_BY_ITS_ACCOUNT,
        ),
    )


def _limits(parameters: Parameters) -> Iterator[tuple[str, str]]:
    """What holds for a LeaderWorkerSet, in CEL, each with what people read where it does not."""
    yield (
        _all(_has_no_devices(pod) for pod in _PODS),
        "spec.leaderWorkerTemplate: pods of a data cache may request only "
        f"{', '.join(_RESOURCES)}, since they run without the quota of a queue. Remove the "
        "other resources and resourceClaims, or use them in a TrainJob.",
    )
    yield (
        _all(f"{pod}.?priorityClassName.orValue('') == ''" for pod in _PODS),
        "spec.leaderWorkerTemplate: pods of a data cache may not have a priority, by which the scheduler "
        "evicts the pods of others. Remove priorityClassName.",
    )
    yield (
        _all(_is_apart_from_the_host(pod) for pod in _PODS),
        "spec.leaderWorkerTemplate: pods of a data cache may not use the namespaces and ports of their node, "
        f"nor send requests from it to other hosts. Remove {', '.join(host_access.NAMESPACES)}, hostPort, "
        "and the host in httpGet and tcpSocket of probes and lifecycle hooks.",
    )
    yield (
        _all(map(_has_no_privileges, _TEMPLATES)),
        "spec.leaderWorkerTemplate: containers of a data cache get no privileges. In each securityContext, "
        "remove privileged, allowPrivilegeEscalation, capabilities.add, procMount, hostProcess, Unconfined "
        "profiles, and seLinuxOptions and sysctls outside of the baseline Pod Security Standard.",
    )
    is_allowed = " || ".join(f"has(volume.{source})" for source in volume_sources.SOURCES)
    yield (
        _all(f"{pod}.?volumes.orValue([]).all(volume, {is_allowed})" for pod in _PODS),
        "spec.leaderWorkerTemplate: pods of a data cache may mount only volumes of the kinds "
        f"{', '.join(volume_sources.SOURCES)}, and none by its address or driver: use a "
        "persistentVolumeClaim.",
    )
    grace = parameters.longest_grace
    yield (
        _all(
            (
                *(f"{pod}.?terminationGracePeriodSeconds.orValue(0) <= {grace}" for pod in _PODS),
                *(f"{template}.?metadata.?finalizers.orValue([]).size() == 0" for template in _TEMPLATES),
            )
        ),
        "spec.leaderWorkerTemplate: pods of a data cache must end soon after their deletion. Remove "
        f"finalizers, and set terminationGracePeriodSeconds to at most {grace} "
        "(policies.parameters.longestGrace in the stack file).",
    )
    yield (
        f"object.spec.?replicas.orValue(1) <= 1 && {_TEMPLATE}.?size.orValue(1) <= {_MOST_PODS}",
        f"spec: a data cache has one replica, of at most {_MOST_PODS} pods. Set replicas to 1, and "
        f"leaderWorkerTemplate.size to at most {_MOST_PODS}.",
    )


def _sources(images: Sequence[str] | None) -> Iterator[tuple[str, str]]:
    if images is None:
        return
    # A whole registry has no slash: what follows its colon is a port, hence another registry.
    is_within = (
        "image.startsWith(source + '/') || source.contains('/') && "
        "(image == source || image.startsWith(source + ':') || image.startsWith(source + '@'))"
    )
    # A digest after the tag would take precedence over it, and be that of any image of the repository.
    tagged = [source for source in images if "@" not in source and "/" in source and parse(source).tag]
    others = [source.rstrip("/") for source in images if "@" not in source and source not in tagged]
    is_allowed = f"{json.dumps(others)}.exists(source, {is_within})"
    if tagged:
        is_allowed += f" || image in {json.dumps(tagged)}"
    if pinned := [source for source in images if "@" in source]:
        is_pinned = (
            "image.endsWith('@' + pin[1]) "
            "&& (image.startsWith(pin[0] + ':') || image.startsWith(pin[0] + '@'))"
        )
        pins = dict.fromkeys(pin for source in pinned for pin in _pins(source))
        is_allowed += f" || {json.dumps(list(pins))}.exists(pin, {is_pinned})"
    of_containers = (
        f"{{pod}}.?{kind}.orValue([]).map(container, container.?image.orValue(''))" for kind in _CONTAINERS
    )
    used = (
        *of_containers,
        "{pod}.?volumes.orValue([]).filter(volume, has(volume.image))"
        ".map(volume, volume.image.?reference.orValue(''))",
    )
    yield (
        _all(f"{of.format(pod=pod)}.all(image, {is_allowed})" for pod in _PODS for of in used),
        "spec.leaderWorkerTemplate: images of a data cache must come from an allowed registry "
        f"({', '.join(images) or 'none'}), and begin with its name. Use such an image, or ask your platform "
        "team to allow this one (policies.parameters.registries in the stack file).",
    )


def _pins(source: str) -> Iterator[tuple[str, str | None]]:
    """The repository as it is written, as in the stack's LeaderWorkerSet, and in full; with the digest."""
    image = parse(source)
    name = source.partition("@")[0]
    yield (name.removesuffix(f":{image.tag}") if image.tag else name), image.digest
    yield image.repository, image.digest


def _all(conditions: Iterable[str]) -> str:
    return " && ".join(conditions)


def _has_no_devices(pod: str) -> str:
    """CEL: whether neither the pod nor a container of it requests anything else."""
    allowed = f"[{', '.join(repr(resource) for resource in _RESOURCES)}]"

    def only(owner: str) -> str:
        return _all(
            f"{owner}.?resources.?{amounts}.orValue({{}}).all(name, name in {allowed})"
            for amounts in ("limits", "requests")
        )

    containers = _of_each_container(pod, only("container"))
    return _all((f"{pod}.?resourceClaims.orValue([]).size() == 0", only(pod), containers))


def _is_apart_from_the_host(pod: str) -> str:
    """CEL: whether the pod has what the rule `host-access` demands of a TrainJob's pods, but for volumes."""
    namespaces = (f"!{pod}.?{name}.orValue(false)" for name in host_access.NAMESPACES)
    ports = "container.?ports.orValue([]).all(port, port.?hostPort.orValue(0) == 0)"
    hosts = (
        f"container.?{'.?'.join((*steps, kind))}.?host.orValue('') == ''"
        for steps in host_access.ASKED_BY_THE_KUBELET
        for kind in host_access.TO_A_HOST
    )
    return _all((*namespaces, _of_each_container(pod, _all((ports, *hosts)))))


def _has_no_privileges(template: str) -> str:
    """CEL: whether the pod has what the rule `privileges` demands of a TrainJob's pods, but for priority."""
    pod, annotations = f"{template}.?spec", f"{template}.?metadata.?annotations.orValue({{}})"
    sysctls = f"{pod}.?securityContext.?sysctls.orValue([])"
    of_a_container = (
        "!container.?securityContext.?privileged.orValue(false)",
        "!container.?securityContext.?allowPrivilegeEscalation.orValue(false)",
        "container.?securityContext.?procMount.orValue('Default') == 'Default'",
        "container.?securityContext.?capabilities.?add.orValue([]).size() == 0",
        _is_confined("container"),
    )
    of_the_pod = (
        _is_confined(pod),
        f"{sysctls}.all(sysctl, sysctl.name in {[*privileges.SYSCTLS]})",
        f"{annotations}.all(name, !name.startsWith('{privileges.APP_ARMOR}') "
        f"|| {annotations}[name] != 'unconfined')",
        _of_each_container(pod, _all(of_a_container)),
    )
    return _all(of_the_pod)


def _is_confined(owner: str) -> str:
    """CEL: whether the pod or container has the filters for containers, and is no process of the host."""
    security = f"{owner}.?securityContext"
    conditions = (
        f"{security}.?seccompProfile.?type.orValue('') != 'Unconfined'",
        f"{security}.?appArmorProfile.?type.orValue('') != 'Unconfined'",
        f"{security}.?seLinuxOptions.?type.orValue('') in {['', *privileges.SELINUX_TYPES]}",
        f"{security}.?seLinuxOptions.?user.orValue('') == ''",
        f"{security}.?seLinuxOptions.?role.orValue('') == ''",
        f"!{security}.?windowsOptions.?hostProcess.orValue(false)",
    )
    return _all(conditions)


def _of_each_container(pod: str, condition: str) -> str:
    """CEL: whether this holds for each `container` of the pod."""
    return _all(f"{pod}.?{kind}.orValue([]).all(container, {condition})" for kind in _CONTAINERS)


def role() -> Manifest:
    """What the initializer may do, and no more, once for all namespaces.

    It creates a ServiceAccount, a LeaderWorkerSet and a Service that its
    TrainJob owns, or finds those of an earlier pod of the same job, waits for
    the cache, reads in its pods why it does not come, and deletes the
    LeaderWorkerSet (upstream's: the ServiceAccount) of a cache that never will.
    """
    rules = [
        rights.rule(GROUP, ["leaderworkersets"], ["create", "delete", "get"]),
        rights.rule("", ["services"], ["create", "get"]),
        rights.rule("", ["serviceaccounts"], ["create", "delete", "get"]),
        rights.rule("", ["pods"], ["list"]),
        rights.rule(names.TRAINER_GROUP, [names.TRAINJOBS], ["get"]),
        # For owner references, where OwnerReferencesPermissionEnforcement is on, as in OpenShift.
        rights.rule(names.TRAINER_GROUP, [f"{names.TRAINJOBS}/finalizers"], ["update"]),
    ]
    return rights.role({"name": ACCOUNT}, rules)


def account(namespace: str, pull_secrets: Sequence[str] = ()) -> list[Manifest]:
    """The initializer's ServiceAccount in a namespace, with permissions only there.

    Args:
        namespace: The tenant's.
        pull_secrets: Secrets in it with which nodes pull the initializer's image.
    """
    metadata = {"name": ACCOUNT, "namespace": namespace}
    secrets = {"imagePullSecrets": [{"name": secret} for secret in pull_secrets]} if pull_secrets else {}
    return [
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata, **secrets},
        rights.binding(metadata, ACCOUNT, [rights.account(ACCOUNT, namespace)], kind="ClusterRole"),
    ]
