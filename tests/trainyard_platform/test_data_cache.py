"""The data cache: who may start one, and what is left out where there is none."""

from pathlib import Path
from typing import Any

import pytest

from tests.support import program
from tests.support.program import Registered
from trainyard_platform.catalog import equipment
from trainyard_platform.catalog.files import Runtime
from trainyard_platform.parts.data_cache import manifests
from trainyard_policies.parameters import Parameters
from trainyard_policies.rules import privileges

OPERATOR = {"image": "docker.io/trainyard/operator:1"}
QUEUES = {"kueue": {"enabled": True}, "queues": {"clusterQueues": {"all": {}}}}
CRD = "kubernetes:apiextensions.k8s.io/v1:CustomResourceDefinition"
RBAC = "rbac.authorization.k8s.io"


def runtime(name: str, *env: str) -> Runtime:
    container = {"name": "dataset-initializer", "env": [{"name": one, "value": "x"} for one in env]}
    job = {
        "name": "dataset-initializer",
        "template": {"spec": {"template": {"spec": {"containers": [container]}}}},
    }
    spec = {"template": {"spec": {"replicatedJobs": [job]}}}
    return Runtime(name=name, framework="torch", manifest={"spec": spec})


def test_runtimes_that_start_a_cache_are_told_apart_by_the_image_that_they_name() -> None:
    cached, plain = runtime("cached", "CACHE_IMAGE", "TRAIN_JOB_NAME"), runtime("plain", "TRAIN_JOB_NAME")
    assert [equipment.starts_cache(one) for one in (cached, plain)] == [True, False]


def test_an_initializer_may_make_what_a_cache_is_of_and_nothing_else() -> None:
    def rule(group: str, resource: str, *verbs: str) -> dict[str, Any]:
        return {"apiGroups": [group], "resources": [resource], "verbs": list(verbs)}

    assert manifests.role() == {
        "apiVersion": f"{RBAC}/v1",
        "kind": "ClusterRole",
        "metadata": {"name": "kubeflow-trainer-cache-initializer"},
        "rules": [
            rule("leaderworkerset.x-k8s.io", "leaderworkersets", "create", "delete", "get"),
            rule("", "services", "create", "get"),
            rule("", "serviceaccounts", "create", "delete", "get"),
            rule("", "pods", "list"),
            rule("trainer.kubeflow.org", "trainjobs", "get"),
            rule("trainer.kubeflow.org", "trainjobs/finalizers", "update"),
        ],
    }


def test_it_may_so_in_the_namespaces_of_tenants() -> None:
    metadata = {"name": "kubeflow-trainer-cache-initializer", "namespace": "team"}
    assert manifests.account("team") == [
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata},
        {
            "apiVersion": f"{RBAC}/v1",
            "kind": "RoleBinding",
            "metadata": metadata,
            "roleRef": {
                "apiGroup": RBAC,
                "kind": "ClusterRole",
                "name": "kubeflow-trainer-cache-initializer",
            },
            "subjects": [{"kind": "ServiceAccount", **metadata}],
        },
    ]


def test_its_image_is_pulled_with_the_pull_secrets_of_the_tenant() -> None:
    account, _ = manifests.account("team", ["registry", "mirror"])
    assert account == {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": {"name": "kubeflow-trainer-cache-initializer", "namespace": "team"},
        "imagePullSecrets": [{"name": "registry"}, {"name": "mirror"}],
    }


SET = "object.spec.leaderWorkerTemplate"


def devices(owner: str) -> str:
    """CEL: the owner requests no resource but these."""
    allowed = "['cpu', 'memory', 'ephemeral-storage']"
    return (
        f"{owner}.?resources.?limits.orValue({{}}).all(name, name in {allowed}) "
        f"&& {owner}.?resources.?requests.orValue({{}}).all(name, name in {allowed})"
    )


def pods(pod: str) -> str:
    """CEL: the pods request no resource but these."""
    return (
        f"{pod}.?resourceClaims.orValue([]).size() == 0 && {devices(pod)} "
        f"&& {containers(pod, devices('container'))}"
    )


def containers(pod: str, condition: str) -> str:
    """CEL: this holds for each container of the pod."""
    return (
        f"{pod}.?containers.orValue([]).all(container, {condition}) "
        f"&& {pod}.?initContainers.orValue([]).all(container, {condition})"
    )


def apart(pod: str) -> str:
    """CEL: the pods use no namespace, no port and no requests of their node."""
    container = (
        "container.?ports.orValue([]).all(port, port.?hostPort.orValue(0) == 0) "
        "&& container.?livenessProbe.?httpGet.?host.orValue('') == '' "
        "&& container.?livenessProbe.?tcpSocket.?host.orValue('') == '' "
        "&& container.?readinessProbe.?httpGet.?host.orValue('') == '' "
        "&& container.?readinessProbe.?tcpSocket.?host.orValue('') == '' "
        "&& container.?startupProbe.?httpGet.?host.orValue('') == '' "
        "&& container.?startupProbe.?tcpSocket.?host.orValue('') == '' "
        "&& container.?lifecycle.?postStart.?httpGet.?host.orValue('') == '' "
        "&& container.?lifecycle.?postStart.?tcpSocket.?host.orValue('') == '' "
        "&& container.?lifecycle.?preStop.?httpGet.?host.orValue('') == '' "
        "&& container.?lifecycle.?preStop.?tcpSocket.?host.orValue('') == ''"
    )
    return (
        f"!{pod}.?hostNetwork.orValue(false) && !{pod}.?hostPID.orValue(false) "
        f"&& !{pod}.?hostIPC.orValue(false) && {containers(pod, container)}"
    )


def confined(owner: str) -> str:
    """CEL: the pod or container has the filters for containers, and is no process of the host."""
    types = "['', 'container_t', 'container_init_t', 'container_kvm_t', 'container_engine_t']"
    security = f"{owner}.?securityContext"
    return (
        f"{security}.?seccompProfile.?type.orValue('') != 'Unconfined' "
        f"&& {security}.?appArmorProfile.?type.orValue('') != 'Unconfined' "
        f"&& {security}.?seLinuxOptions.?type.orValue('') in {types} "
        f"&& {security}.?seLinuxOptions.?user.orValue('') == '' "
        f"&& {security}.?seLinuxOptions.?role.orValue('') == '' "
        f"&& !{security}.?windowsOptions.?hostProcess.orValue(false)"
    )


def unprivileged(template: str) -> str:
    """CEL: the pods have no privileges."""
    annotations = f"{template}.?metadata.?annotations.orValue({{}})"
    container = (
        "!container.?securityContext.?privileged.orValue(false) "
        "&& !container.?securityContext.?allowPrivilegeEscalation.orValue(false) "
        "&& container.?securityContext.?procMount.orValue('Default') == 'Default' "
        "&& container.?securityContext.?capabilities.?add.orValue([]).size() == 0 "
        f"&& {confined('container')}"
    )
    return (
        f"{confined(f'{template}.?spec')} "
        f"&& {template}.?spec.?securityContext.?sysctls.orValue([])"
        f".all(sysctl, sysctl.name in {[*privileges.SYSCTLS]}) "
        f"&& {annotations}.all(name, !name.startsWith('container.apparmor.security.beta.kubernetes.io/') "
        f"|| {annotations}[name] != 'unconfined') && {containers(f'{template}.?spec', container)}"
    )


HEAD, WORKER = f"{SET}.?leaderTemplate.?spec", f"{SET}.?workerTemplate.?spec"
SOURCES = (
    "has(volume.configMap) || has(volume.downwardAPI) || has(volume.emptyDir) || has(volume.ephemeral) "
    "|| has(volume.image) || has(volume.persistentVolumeClaim) || has(volume.projected) || has(volume.secret)"
)
LIMITS = [
    {
        "expression": f"{pods(HEAD)} && {pods(WORKER)}",
        "message": "spec.leaderWorkerTemplate: pods of a data cache may request only cpu, memory, "
        "ephemeral-storage, since they run without the quota of a queue. Remove the other resources "
        "and resourceClaims, or use them in a TrainJob.",
    },
    {
        "expression": f"{HEAD}.?priorityClassName.orValue('') == '' "
        f"&& {WORKER}.?priorityClassName.orValue('') == ''",
        "message": "spec.leaderWorkerTemplate: pods of a data cache may not have a priority, by which the "
        "scheduler evicts the pods of others. Remove priorityClassName.",
    },
    {
        "expression": f"{apart(HEAD)} && {apart(WORKER)}",
        "message": "spec.leaderWorkerTemplate: pods of a data cache may not use the namespaces and ports of "
        "their node, nor send requests from it to other hosts. Remove hostNetwork, hostPID, hostIPC, "
        "hostPort, and the host in httpGet and tcpSocket of probes and lifecycle hooks.",
    },
    {
        "expression": f"{unprivileged(f'{SET}.?leaderTemplate')} && {unprivileged(f'{SET}.?workerTemplate')}",
        "message": "spec.leaderWorkerTemplate: containers of a data cache get no privileges. In each "
        "securityContext, remove privileged, allowPrivilegeEscalation, capabilities.add, procMount, "
        "hostProcess, Unconfined profiles, and seLinuxOptions and sysctls outside of the baseline Pod "
        "Security Standard.",
    },
    {
        "expression": f"{HEAD}.?volumes.orValue([]).all(volume, {SOURCES}) "
        f"&& {WORKER}.?volumes.orValue([]).all(volume, {SOURCES})",
        "message": "spec.leaderWorkerTemplate: pods of a data cache may mount only volumes of the kinds "
        "configMap, downwardAPI, emptyDir, ephemeral, image, persistentVolumeClaim, projected, secret, and "
        "none by its address or driver: use a persistentVolumeClaim.",
    },
    {
        "expression": f"{HEAD}.?terminationGracePeriodSeconds.orValue(0) <= 600 "
        f"&& {WORKER}.?terminationGracePeriodSeconds.orValue(0) <= 600 "
        f"&& {SET}.?leaderTemplate.?metadata.?finalizers.orValue([]).size() == 0 "
        f"&& {SET}.?workerTemplate.?metadata.?finalizers.orValue([]).size() == 0",
        "message": "spec.leaderWorkerTemplate: pods of a data cache must end soon after their deletion. "
        "Remove finalizers, and set terminationGracePeriodSeconds to at most 600 "
        "(policies.parameters.longestGrace in the stack file).",
    },
    {
        "expression": f"object.spec.?replicas.orValue(1) <= 1 && {SET}.?size.orValue(1) <= 1000",
        "message": "spec: a data cache has one replica, of at most 1000 pods. Set replicas to 1, and "
        "leaderWorkerTemplate.size to at most 1000.",
    },
]


@pytest.mark.parametrize(
    ("name", "group", "version", "resource", "validations"),
    [
        (
            "caches-need-no-devices.policy.trainyard.dev",
            "leaderworkerset.x-k8s.io",
            "v1",
            "leaderworkersets",
            LIMITS,
        ),
        (
            "caches-stay-in-the-cluster.policy.trainyard.dev",
            "",
            "v1",
            "services",
            [
                {
                    "expression": "object.spec.?type.orValue('ClusterIP') == 'ClusterIP' "
                    "&& object.spec.?externalIPs.orValue([]).size() == 0",
                    "message": "spec: the Service of a data cache must be of type ClusterIP, without "
                    "externalIPs: only pods of the cluster use it.",
                },
            ],
        ),
    ],
    ids=["LeaderWorkerSets", "Services"],
)
def test_with_the_rights_of_an_initializer_nobody_gets_more_than_a_cache_needs(
    name: str, group: str, version: str, resource: str, validations: list[dict[str, str]]
) -> None:
    declared = {
        manifest["kind"]: manifest["spec"]
        for manifest in manifests.policies(Parameters(longest_grace=600))
        if manifest["metadata"]["name"] == name
    }
    rule = {
        "apiGroups": [group],
        "apiVersions": [version],
        "operations": ["CREATE", "UPDATE"],
        "resources": [resource],
    }
    account = (
        "request.userInfo.username.startsWith('system:serviceaccount:') "
        "&& request.userInfo.username.endsWith(':kubeflow-trainer-cache-initializer')"
    )
    assert declared == {
        "ValidatingAdmissionPolicy": {
            "failurePolicy": "Fail",
            "matchConstraints": {"resourceRules": [rule]},
            "matchConditions": [{"name": "by-a-cache-initializer", "expression": account}],
            "validations": validations,
        },
        "ValidatingAdmissionPolicyBinding": {"policyName": name, "validationActions": ["Deny"]},
    }


def within(images: str, pins: str) -> str:
    """CEL: the images are of one of these sources."""
    return (
        f'{images}.all(image, ["ghcr.io/kubeflow", "quay.io"].exists(source, '
        "image.startsWith(source + '/') || source.contains('/') && (image == source "
        f"|| image.startsWith(source + ':') || image.startsWith(source + '@'))){pins})"
    )


def images(pod: str, pins: str = "") -> str:
    """CEL: the images of the pods are of one of these sources."""
    of_a_container = "map(container, container.?image.orValue(''))"
    mounted = "filter(volume, has(volume.image)).map(volume, volume.image.?reference.orValue(''))"
    used = (f"containers.orValue([]).{of_a_container}", f"initContainers.orValue([]).{of_a_container}")
    every = (*used, f"volumes.orValue([]).{mounted}")
    return " && ".join(within(f"{pod}.?{images}", pins) for images in every)


def test_a_cache_uses_images_of_the_registries_that_the_rules_allow() -> None:
    policy, *_ = manifests.policies(Parameters(longest_grace=600), ["ghcr.io/kubeflow/", "quay.io"])
    assert policy["spec"]["validations"] == [
        *LIMITS,
        {
            "expression": f"{images(HEAD)} && {images(WORKER)}",
            "message": "spec.leaderWorkerTemplate: images of a data cache must come from an allowed registry "
            "(ghcr.io/kubeflow/, quay.io), and begin with its name. Use such an image, or ask your platform "
            "team to allow this one (policies.parameters.registries in the stack file).",
        },
    ]


def test_of_an_image_with_a_digest_a_cache_uses_only_this_one_whatever_its_tag() -> None:
    digest = f"sha256:{'0' * 64}"
    sources = ["ghcr.io/kubeflow", f"ghcr.io/acme/data-cache:1.0.0@{digest}", "quay.io"]
    policy, *_ = manifests.policies(Parameters(), sources)
    pins = (
        f' || [["ghcr.io/acme/data-cache", "{digest}"]].exists(pin, '
        "image.endsWith('@' + pin[1]) "
        "&& (image.startsWith(pin[0] + ':') || image.startsWith(pin[0] + '@')))"
    )
    expression = policy["spec"]["validations"][-1]["expression"]
    assert expression == f"{images(HEAD, pins)} && {images(WORKER, pins)}"


@pytest.mark.parametrize(
    ("written", "in_full"),
    [
        ("index.docker.io/acme/data-cache", "docker.io/acme/data-cache"),
        ("docker.io/data-cache", "docker.io/library/data-cache"),
    ],
)
def test_an_image_with_a_digest_is_allowed_as_it_is_written_and_in_full(written: str, in_full: str) -> None:
    digest = f"sha256:{'0' * 64}"
    policy, *_ = manifests.policies(Parameters(), [f"{written}:1@{digest}"])
    expression = policy["spec"]["validations"][-1]["expression"]
    assert f'[["{written}", "{digest}"], ["{in_full}", "{digest}"]].exists(pin, ' in expression


def test_of_an_image_with_a_tag_a_cache_uses_only_this_one_and_no_digest_of_its_repository() -> None:
    sources = ["ghcr.io/kubeflow", "localhost:5000/data-cache:1.0.0", "quay.io"]
    policy, *_ = manifests.policies(Parameters(), sources)
    tags = ' || image in ["localhost:5000/data-cache:1.0.0"]'
    expression = policy["spec"]["validations"][-1]["expression"]
    assert expression == f"{images(HEAD, tags)} && {images(WORKER, tags)}"


@pytest.mark.usefixtures("pins")
@pytest.mark.parametrize(
    ("settings", "registries"),
    [
        ({"policies": {"parameters": {"registries": ["ghcr.io"]}}}, ["(ghcr.io, quay.io/own/cache:1)"]),
        ({"policies": {"levels": {"trainJobs": {"image-registry": "advisory"}}}}, []),
        ({"admission": {"policies": False}}, []),
    ],
    ids=["the rule refuses", "the rule warns", "the cluster has no rules"],
)
def test_images_of_a_cache_are_limited_where_the_rule_about_images_refuses(
    tmp_path: Path, settings: dict[str, Any], registries: list[str]
) -> None:
    registered = graph(tmp_path, dataCache={"enabled": True, "cacheImage": "quay.io/own/cache:1"}, **settings)
    [policy] = [
        resource
        for key, resource in registered.items()
        if key.endswith(f"Policy validatingadmissionpolicy-{manifests.SETS_NAME}")
    ]
    messages = [validation["message"] for validation in policy.inputs["spec"]["validations"]]
    of_images = [message.partition(" registry ")[2] for message in messages if " registry " in message]
    assert [message.partition(", and ")[0] for message in of_images] == registries


def graph(folder: Path, **settings: Any) -> dict[str, Registered]:
    source = {"source": "folder", "folder": str(program.artifacts_folder(folder))}
    team = {"tenants": {"team": {"clusterQueue": "all"}}}
    registered = program.run({"operator": OPERATOR, "artifacts": source, **QUEUES, **team, **settings})
    return {one.key: one for one in registered}


@pytest.mark.usefixtures("pins")
def test_a_stack_with_a_cache_has_leaderworkerset_and_its_tenants_may_start_one(tmp_path: Path) -> None:
    found = graph(tmp_path, dataCache={"enabled": True, "replicas": 2})
    chart = found["kubernetes:helm.sh/v4:Chart lws"]
    assert (chart.inputs["namespace"], chart.inputs["skipCrds"]) == ("lws-system", True)
    assert chart.inputs["values"] == {
        "image": {
            "manager": {
                "repository": "registry.k8s.io/lws/lws",
                "tag": "v0.9.0",
                "pullPolicy": "IfNotPresent",
            }
        },
        "replicaCount": 2,
        "resources": {
            "requests": {"cpu": "100m", "memory": "256Mi"},
            "limits": {"memory": "256Mi"},
        },
        "podSecurityContext": {"seccompProfile": {"type": "RuntimeDefault"}},
    }
    assert found[f"{CRD} leaderworkersets.leaderworkerset.x-k8s.io"].retain
    name = "team/kubeflow-trainer-cache-initializer"
    binding = found[f"kubernetes:{RBAC}/v1:RoleBinding rolebinding-{name}"]
    assert "kubernetes:core/v1:Namespace namespace-team" in binding.depends_on
    quota = found["kubernetes:core/v1:ResourceQuota resourcequota-team/tenant"].inputs["spec"]["hard"]
    assert quota["count/leaderworkersets.leaderworkerset.x-k8s.io"] == "1000"
    policies = "kubernetes:admissionregistration.k8s.io/v1:ValidatingAdmissionPolicyBinding"
    role = found[f"kubernetes:{RBAC}/v1:ClusterRole clusterrole-kubeflow-trainer-cache-initializer"]
    assert {
        dependency for dependency in role.depends_on if "-caches-" in dependency and "Binding" in dependency
    } == {
        f"{policies} validatingadmissionpolicybinding-caches-need-no-devices.policy.trainyard.dev",
        f"{policies} validatingadmissionpolicybinding-caches-stay-in-the-cluster.policy.trainyard.dev",
    }
    assert f"kubernetes:core/v1:ServiceAccount serviceaccount-{name}" in found


@pytest.mark.usefixtures("pins")
def test_a_stack_without_one_has_nothing_of_it(tmp_path: Path) -> None:
    found = graph(tmp_path)
    assert [key for key in found if "lws" in key or "cache" in key or "leaderworker" in key] == []
