"""A tenant's namespace and all that is in it, from its few settings."""

import json
from typing import Any

import pytest

from trainyard_api import names
from trainyard_platform.errors import PlatformError
from trainyard_platform.parts.accelerators import component as accelerators
from trainyard_platform.parts.coscheduling import component as coscheduling
from trainyard_platform.parts.data_cache import component as data_cache
from trainyard_platform.parts.jobset import component as jobset
from trainyard_platform.parts.kueue import manifests as kueue
from trainyard_platform.parts.operator import endpoints as operator
from trainyard_platform.parts.tenants import manifests as tenant_manifests
from trainyard_platform.parts.volcano import manifests as volcano
from trainyard_platform.stack import resource_quotas, settings
from trainyard_platform.stack.queues import Queues
from trainyard_platform.stack.tenants import Tenant

OPERATOR = {"image": "docker.io/trainyard/operator:1"}
TEAM = {
    "clusterQueue": "research",
    "resourceQuota": {"requests.nvidia.com/gpu": "16"},
    "containerDefaults": {"requests": {"cpu": "1"}, "limits": {"memory": "8Gi"}},
    "egress": [{"cidr": "203.0.113.0/24", "excluded": ["203.0.113.8/32"], "ports": [443]}],
    "dataScientists": [{"name": "research"}, {"kind": "User", "name": "ada"}],
    "viewers": [
        {"kind": "ServiceAccount", "name": "dashboard", "namespace": "monitoring"},
        {"name": "research"},
    ],
}
RBAC = "rbac.authorization.k8s.io"


def tenant(**changes: Any) -> Tenant:
    return Tenant.model_validate({**TEAM, **changes})


@pytest.mark.parametrize(
    "name",
    [
        *(accelerators.NAMESPACE, coscheduling.NAMESPACE, data_cache.NAMESPACE, jobset.NAMESPACE),
        *(names.KUBEFLOW_NAMESPACE, kueue.NAMESPACE, names.SYSTEM_NAMESPACE, volcano.NAMESPACE),
        *("default", "kube-system", "kube-public", "openshift-ingress"),
    ],
)
def test_a_namespace_of_the_system_is_no_tenants(name: str) -> None:
    stack = {
        "operator": OPERATOR,
        "kueue": {"enabled": True},
        "queues": {"clusterQueues": {"research": {}}},
        "tenants": {name: {"clusterQueue": "research"}},
    }
    with pytest.raises(PlatformError) as refused:
        settings.of(stack, "prod")
    assert (
        f"  trainyard:platform.tenants.{name}: is a namespace of the system: "
        "a tenant's limits would stop what runs there"
    ) in str(refused.value).splitlines()


@pytest.mark.parametrize("part", ["requests", "limits"])
def test_containers_get_no_default_that_their_namespace_refuses(part: str) -> None:
    stack = {
        "operator": OPERATOR,
        "kueue": {"enabled": True},
        "queues": {"clusterQueues": {"research": {}}},
        "tenants": {"team": {"clusterQueue": "research", "containerDefaults": {part: {"memory": "0"}}}},
    }
    with pytest.raises(PlatformError) as refused:
        settings.of(stack, "prod")
    assert (
        f"  trainyard:platform.tenants.team.containerDefaults.{part}: memory must be at least 1Mi; is '0'"
    ) in str(refused.value).splitlines()


def defaults_of_a_team(**defaults: Any) -> settings.StackSettings:
    stack = {
        "operator": OPERATOR,
        "kueue": {"enabled": True},
        "queues": {"clusterQueues": {"research": {}}},
        "tenants": {"team": {"clusterQueue": "research", "containerDefaults": defaults}},
    }
    return settings.of(stack, "prod")


@pytest.mark.parametrize(
    ("defaults", "message"),
    [
        pytest.param(
            {"limits": {"memory": "128Mi"}},
            "requests.memory is 256Mi and limits.memory is 128Mi: no request may exceed the limit; set both",
            id="less than the request that nobody has set",
        ),
        pytest.param(
            {"requests": {"cpu": "2"}, "limits": {"cpu": "1500m"}},
            "requests.cpu is 2 and limits.cpu is 1500m: no request may exceed the limit; set both",
            id="less than the request that is set",
        ),
        pytest.param(
            {"requests": {"nvidia.com/gpu": "1"}, "limits": {"nvidia.com/gpu": "2"}},
            "requests.nvidia.com/gpu is 1 and limits.nvidia.com/gpu is 2: "
            "both must be the same for this resource",
            id="more devices than are requested",
        ),
    ],
)
def test_limits_that_the_api_server_refuses_beside_the_requests_are_refused_before(
    defaults: dict[str, Any], message: str
) -> None:
    with pytest.raises(PlatformError) as refused:
        defaults_of_a_team(**defaults)
    assert str(refused.value).splitlines()[1:] == [
        f"  trainyard:platform.tenants.team.containerDefaults: {message}"
    ]


@pytest.mark.parametrize(
    ("limits", "message"),
    [
        (
            {"nvidia.com/gpu": "8"},
            "nvidia.com/gpu: Kubernetes would not enforce it: write requests.nvidia.com/gpu",
        ),
        (
            {"limits.nvidia.com/gpu": "8"},
            "limits.nvidia.com/gpu: Kubernetes would not enforce it: write requests.nvidia.com/gpu",
        ),
        (
            {"pod": "8"},
            "pod: no ResourceQuota has this limit. Of other objects it is count/<resource>.<group>, and of "
            "devices requests.<domain>/<resource>; did you mean pods?",
        ),
        (
            {"requests.nvidia.com/": "8"},
            "requests.nvidia.com/: must be a key such as requests.nvidia.com/gpu or count/jobs.batch",
        ),
        ({"pods": "500m"}, "pods: must be a whole number; is '500m'"),
        ({"count/jobs.batch": "1.5"}, "count/jobs.batch: must be a whole number; is '1.5'"),
    ],
)
def test_limits_of_a_namespace_that_kubernetes_refuses_or_never_enforces_are_refused(
    limits: dict[str, str], message: str
) -> None:
    assert list(resource_quotas.problems(limits)) == [message]


def test_limits_of_a_namespace_are_those_that_kubernetes_enforces() -> None:
    limits = {
        "cpu": "1500m",
        "limits.memory": "1.5Gi",
        "requests.ephemeral-storage": "1Ti",
        "hugepages-2Mi": "1Gi",
        "requests.hugepages-1Gi": "8Gi",
        "pods": "1k",
        "services.loadbalancers": "0",
        "requests.storage": "10Ti",
        "requests.nvidia.com/gpu": "16",
        "requests.deviceclass.resource.kubernetes.io/gpu": "4",
        "count/trainjobs.trainer.kubeflow.org": "100",
        "fast.storageclass.storage.k8s.io/requests.storage": "0",
        "fast.storageclass.storage.k8s.io/persistentvolumeclaims": "5",
        "gpu.deviceclass.resource.k8s.io/devices": "8",
    }
    assert list(resource_quotas.problems(limits)) == []


@pytest.mark.parametrize(
    "defaults",
    [
        {"limits": {"memory": "256Mi"}},
        {"requests": {"cpu": "1"}, "limits": {"memory": "128Mi"}},
        {"requests": {"cpu": "1", "nvidia.com/gpu": "1"}, "limits": {"cpu": "2", "nvidia.com/gpu": "1"}},
    ],
    ids=["as much", "another resource", "more of what nodes can share"],
)
def test_limits_that_hold_the_requests_are_accepted(defaults: dict[str, Any]) -> None:
    accepted = defaults_of_a_team(**defaults).tenants["team"].container_defaults
    assert accepted.limits == defaults["limits"]


def test_the_namespace_says_whose_it_is_and_what_its_pods_may_ask() -> None:
    assert tenant_manifests.namespace("team", tenant()) == {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {
            "name": "team",
            "labels": {"trainyard.dev/tenant": "team", "pod-security.kubernetes.io/enforce": "baseline"},
        },
    }


def test_a_site_says_more_about_the_namespace_and_the_platforms_own_words_stay() -> None:
    more = tenant(labels={"cost-center": "42"}, annotations={"example.com/owner": "vision@example.com"})
    assert tenant_manifests.namespace("team", more)["metadata"] == {
        "name": "team",
        "labels": {
            "cost-center": "42",
            "trainyard.dev/tenant": "team",
            "pod-security.kubernetes.io/enforce": "baseline",
        },
        "annotations": {"example.com/owner": "vision@example.com"},
    }


ROLE = {"eks.amazonaws.com/role-arn": "arn:aws:iam::111122223333:role/research"}


def account(name: str, **more: Any) -> dict[str, Any]:
    """The account; `more` stands beside its metadata, but for `labels` and `annotations`."""
    labels = {**more.pop("labels", {}), "trainyard.dev/tenant": "team"}
    annotations = {"annotations": more.pop("annotations")} if "annotations" in more else {}
    metadata = {"name": name, "namespace": "team", "labels": labels, **annotations}
    return {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata, **more}


SECRETS = [{"name": "registry"}, {"name": "nvcr.io"}]


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        pytest.param({}, [], id="none unless it is said: the cluster makes `default`"),
        pytest.param(
            {"pullSecrets": ["registry", "nvcr.io"]},
            [account("default", imagePullSecrets=SECRETS)],
            id="pull secrets: of the account of pods that name none",
        ),
        pytest.param(
            {"serviceAccounts": {"reader": {"labels": {"tier": "data"}, "annotations": ROLE}}},
            [account("reader", labels={"tier": "data"}, annotations=ROLE)],
            id="an identity of the cloud",
        ),
        pytest.param(
            {"serviceAccounts": {"default": {"annotations": ROLE}}},
            [account("default", annotations=ROLE)],
            id="the identity of pods that name none",
        ),
        pytest.param(
            {"pullSecrets": ["registry", "nvcr.io"], "serviceAccounts": {"reader": {}}},
            [account("reader", imagePullSecrets=SECRETS), account("default", imagePullSecrets=SECRETS)],
            id="each account pulls alike",
        ),
    ],
)
def test_the_accounts_of_its_pods(given: dict[str, Any], expected: list[Any]) -> None:
    assert list(tenant_manifests.accounts("team", tenant(**given))) == expected


def test_what_limits_and_protects_the_jobs() -> None:
    inside = {"name": "tenant", "namespace": "team"}
    assert tenant_manifests.contents("team", tenant()) == [
        {
            "apiVersion": "v1",
            "kind": "ResourceQuota",
            "metadata": inside,
            "spec": {
                "hard": {
                    "count/configmaps": "1000",
                    "count/secrets": "1000",
                    "persistentvolumeclaims": "1000",
                    "requests.storage": "10Ti",
                    "count/trainjobs.trainer.kubeflow.org": "500",
                    "count/jobsets.jobset.x-k8s.io": "1000",
                    "count/workloads.kueue.x-k8s.io": "1000",
                    "count/jobs.batch": "10000",
                    "count/trainingruntimes.trainer.kubeflow.org": "20",
                    "requests.nvidia.com/gpu": "16",
                }
            },
        },
        {
            "apiVersion": "v1",
            "kind": "ResourceQuota",
            "metadata": {"name": "tenant-affinity", "namespace": "team"},
            "spec": {
                "hard": {"pods": "0"},
                "scopeSelector": {
                    "matchExpressions": [{"scopeName": "CrossNamespacePodAffinity", "operator": "Exists"}]
                },
            },
        },
        {
            "apiVersion": "v1",
            "kind": "LimitRange",
            "metadata": inside,
            "spec": {
                "limits": [
                    {
                        "type": "Container",
                        "min": {"cpu": "1m", "memory": "1Mi"},
                        "defaultRequest": {"cpu": "1"},
                        "default": {"memory": "8Gi"},
                    }
                ]
            },
        },
        {
            "apiVersion": "networking.k8s.io/v1",
            "kind": "NetworkPolicy",
            "metadata": inside,
            "spec": {
                "podSelector": {},
                "policyTypes": ["Ingress", "Egress"],
                "ingress": [{"from": [{"podSelector": {}}]}],
                "egress": [
                    {"to": [{"podSelector": {}}]},
                    {"ports": [{"protocol": "UDP", "port": 53}, {"protocol": "TCP", "port": 53}]},
                    {
                        "to": [{"ipBlock": {"cidr": "203.0.113.0/24", "except": ["203.0.113.8/32"]}}],
                        "ports": [{"protocol": "TCP", "port": 443}],
                    },
                ],
            },
        },
        {
            "apiVersion": "kueue.x-k8s.io/v1beta2",
            "kind": "LocalQueue",
            "metadata": {"name": "default", "namespace": "team"},
            "spec": {"clusterQueue": "research", "stopPolicy": "None"},
        },
    ]


def test_a_stack_can_count_more_trainjobs_and_then_has_room_for_what_is_created_for_them() -> None:
    more = tenant(resourceQuota={"count/trainjobs.trainer.kubeflow.org": "5k"})
    quota = tenant_manifests.contents("team", more)[0]
    assert quota["spec"] == {
        "hard": {
            "count/configmaps": "1000",
            "count/secrets": "1000",
            "persistentvolumeclaims": "1000",
            "requests.storage": "10Ti",
            "count/trainjobs.trainer.kubeflow.org": "5k",
            "count/jobsets.jobset.x-k8s.io": "10000",
            "count/workloads.kueue.x-k8s.io": "10000",
            "count/jobs.batch": "100000",
            "count/trainingruntimes.trainer.kubeflow.org": "20",
        }
    }


def test_a_stack_can_limit_what_is_created_for_trainjobs() -> None:
    fewer = tenant(
        resourceQuota={
            "count/trainjobs.trainer.kubeflow.org": "5",
            "count/jobsets.jobset.x-k8s.io": "7",
        }
    )
    assert fewer.quota() == {
        "count/configmaps": "1000",
        "count/secrets": "1000",
        "persistentvolumeclaims": "1000",
        "requests.storage": "10Ti",
        "count/trainjobs.trainer.kubeflow.org": "5",
        "count/jobsets.jobset.x-k8s.io": "7",
        "count/workloads.kueue.x-k8s.io": "1000",
        "count/jobs.batch": "10000",
        "count/trainingruntimes.trainer.kubeflow.org": "20",
    }


def test_where_there_are_caches_what_they_consist_of_is_limited() -> None:
    quota = tenant_manifests.contents("team", tenant(), caches=True)[0]
    assert quota["spec"] == {
        "hard": {
            **tenant().quota(),
            "count/leaderworkersets.leaderworkerset.x-k8s.io": "1000",
            "count/serviceaccounts": "1000",
            "count/services": "2000",
            "count/statefulsets.apps": "2000",
            "count/controllerrevisions.apps": "3000",
        }
    }


def test_a_tenant_whose_processes_report_reaches_the_operator() -> None:
    _, _, _, network, _ = tenant_manifests.contents("team", tenant(), further=[operator.REPORTING])
    assert network["spec"]["egress"][2] == {
        "to": [
            {
                "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "trainyard-system"}},
                "podSelector": {
                    "matchLabels": {
                        "app.kubernetes.io/name": "trainyard-operator",
                        "app.kubernetes.io/part-of": "trainyard",
                    }
                },
            }
        ],
        "ports": [{"protocol": "TCP", "port": 10443}],
    }


def test_people_get_their_role_in_the_namespace_and_the_catalog_to_read() -> None:
    group = {"kind": "Group", "name": "research", "apiGroup": RBAC}
    ada = {"kind": "User", "name": "ada", "apiGroup": RBAC}
    dashboard = {"kind": "ServiceAccount", "name": "dashboard", "namespace": "monitoring"}

    def binding(kind: str, role: str, metadata: dict[str, str], subjects: list[Any]) -> dict[str, Any]:
        reference = {"apiGroup": RBAC, "kind": "ClusterRole", "name": role}
        head = {"apiVersion": f"{RBAC}/v1", "kind": kind, "metadata": metadata}
        return {**head, "roleRef": reference, "subjects": subjects}

    scientist, viewer, runtimes = "trainyard-data-scientist", "trainyard-viewer", "trainyard-runtime-viewer"
    own_queue = "trainyard-queue-viewer-team"
    assert list(tenant_manifests.bindings("team", tenant(rights=[]))) == [
        binding("RoleBinding", scientist, {"name": scientist, "namespace": "team"}, [group, ada]),
        binding("RoleBinding", viewer, {"name": viewer, "namespace": "team"}, [dashboard, group]),
        binding("ClusterRoleBinding", runtimes, {"name": f"{runtimes}-team"}, [group, ada, dashboard]),
        {
            "apiVersion": f"{RBAC}/v1",
            "kind": "ClusterRole",
            "metadata": {"name": own_queue},
            "rules": [named("clusterqueues", "research")],
        },
        binding("ClusterRoleBinding", own_queue, {"name": own_queue}, [group, ada, dashboard]),
    ]


def named(resource: str, *only: str) -> dict[str, Any]:
    """The right to get these objects of Kueue's, and no others."""
    return {
        "apiGroups": ["kueue.x-k8s.io"],
        "resources": [resource],
        "resourceNames": list(only),
        "verbs": ["get"],
    }


def groups(*flavors: str) -> list[dict[str, Any]]:
    return [{"flavors": [{"name": flavor, "resources": {"cpu": {"nominal": "1"}}} for flavor in flavors]}]


def test_people_see_the_quota_that_is_shared_with_theirs_and_no_other() -> None:
    queues = Queues.model_validate(
        {
            "cohorts": {"all": {}, "some": {"parent": "all"}, "others": {}},
            "clusterQueues": {
                "research": {"cohort": "some", "resourceGroups": groups("h100", "a100")},
                "speech": {"cohort": "all", "resourceGroups": groups("cpu")},
                "elsewhere": {"cohort": "others"},
                "alone": {},
            },
            "localQueues": [
                {"name": "own", "namespace": "has-two", "clusterQueue": "elsewhere"},
                {"name": "own", "namespace": "other", "clusterQueue": "elsewhere"},
            ],
        }
    )

    def rules(namespace: str = "team", **settings: Any) -> list[dict[str, Any]]:
        manifests = tenant_manifests.bindings(namespace, tenant(**settings), queues)
        [role] = [manifest for manifest in manifests if manifest["kind"] == "ClusterRole"]
        return list(role["rules"])

    assert rules() == [
        named("clusterqueues", "research", "speech"),
        named("cohorts", "all", "some"),
        named("resourceflavors", "a100", "h100"),
    ]
    assert rules(clusterQueue="alone") == [named("clusterqueues", "alone")]
    assert rules("has-two", clusterQueue="alone") == [
        named("clusterqueues", "alone", "elsewhere"),
        named("cohorts", "others"),
    ]


def test_nobody_without_people() -> None:
    assert list(tenant_manifests.bindings("team", tenant(dataScientists=[], viewers=[]))) == []


def test_secrets_are_fetched_from_a_store_by_reference() -> None:
    given = {
        "store": {"kind": "SecretStore", "name": "esc"},
        "key": "teams/vision/hub",
        "refreshInterval": "15m",
    }
    (fetched,) = tenant_manifests.secrets("team", tenant(externalSecrets={"hub": given}))
    assert fetched == {
        "apiVersion": "external-secrets.io/v1",
        "kind": "ExternalSecret",
        "metadata": {"name": "hub", "namespace": "team", "labels": {"trainyard.dev/tenant": "team"}},
        "spec": {
            "refreshInterval": "15m",
            "secretStoreRef": {"kind": "SecretStore", "name": "esc"},
            "target": {"name": "hub", "creationPolicy": "Owner", "template": {"type": "Opaque"}},
            "dataFrom": [{"extract": {"key": "teams/vision/hub"}}],
        },
    }


KEEP = ["create", "delete", "get", "list", "patch", "update", "watch"]


def test_data_scientists_may_do_in_the_namespace_what_the_stack_says_beside_trainjobs() -> None:
    role, binding, *_ = list(
        tenant_manifests.bindings("team", tenant(rights=["secrets", "pods/exec"], viewers=[]))
    )[1:]
    metadata = {"name": "trainyard-data-scientist-further", "namespace": "team"}
    assert role == {
        "apiVersion": f"{RBAC}/v1",
        "kind": "Role",
        "metadata": metadata,
        "rules": [
            {"apiGroups": [""], "resources": ["pods/exec"], "verbs": ["create", "get"]},
            {"apiGroups": [""], "resources": ["secrets"], "verbs": KEEP},
        ],
    }
    assert (binding["kind"], binding["metadata"]) == ("RoleBinding", metadata)
    assert binding["roleRef"] == {"apiGroup": RBAC, "kind": "Role", "name": metadata["name"]}
    assert [one["name"] for one in binding["subjects"]] == ["research", "ada"]


def test_by_default_they_may_do_what_the_guides_ask_of_them() -> None:
    role, *_ = [one for one in tenant_manifests.bindings("team", tenant()) if one["kind"] == "Role"]
    assert [(rule["resources"], rule["verbs"]) for rule in role["rules"]] == [
        (["configmaps"], KEEP),
        (["persistentvolumeclaims"], KEEP),
        (["pods"], ["delete"]),
        (["pods/exec"], ["create", "get"]),
        (["pods/portforward"], ["create", "get"]),
        (["secrets"], KEEP),
    ]


def test_without_rights_they_make_trainjobs_alone() -> None:
    made = tenant_manifests.bindings("team", tenant(rights=[], viewers=[]))
    bound = [(one["kind"], one["roleRef"]["name"]) for one in made if "roleRef" in one]
    assert bound == [
        ("RoleBinding", "trainyard-data-scientist"),
        ("ClusterRoleBinding", "trainyard-runtime-viewer"),
        ("ClusterRoleBinding", "trainyard-queue-viewer-team"),
    ]


def test_rights_of_nobody_are_no_role() -> None:
    assert (
        list(tenant_manifests.bindings("team", tenant(rights=["secrets"], dataScientists=[], viewers=[])))
        == []
    )


def test_only_trainjobs_can_be_written_and_no_secret_be_seen() -> None:
    writes = {
        (role["metadata"]["name"], resource, verb)
        for role in tenant_manifests.roles()
        for rule in role["rules"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
        if verb not in ("get", "list", "watch")
    }
    assert writes == {
        ("trainyard-data-scientist", "trainjobs", verb) for verb in ("create", "delete", "patch", "update")
    }
    seen = {
        resource
        for role in tenant_manifests.roles()
        for rule in role["rules"]
        for resource in rule["resources"]
    }
    assert not seen & {"secrets", "configmaps", "pods/exec", "serviceaccounts/token"}


def test_who_belongs_to_a_tenant_reads_what_a_plan_needs_beside_the_quota() -> None:
    rules = {role["metadata"]["name"]: role["rules"] for role in tenant_manifests.roles()}
    limits = {"apiGroups": [""], "resources": ["limitranges"], "verbs": ["get", "list"]}
    assert [name for name, those in rules.items() if limits in those] == [
        "trainyard-data-scientist",
        "trainyard-viewer",
    ]
    assert rules["trainyard-runtime-viewer"][1:] == [
        {
            "apiGroups": ["kueue.x-k8s.io"],
            "resources": ["workloadpriorityclasses"],
            "verbs": ["get", "list"],
        }
    ]


def test_who_belongs_to_a_tenant_reads_what_its_pods_use() -> None:
    read = {
        role["metadata"]["name"]: [rule["resources"] + rule["verbs"] for rule in role["rules"]]
        for role in tenant_manifests.roles()
        for rule in role["rules"]
        if rule["apiGroups"] == ["metrics.k8s.io"]
    }
    assert read.keys() == {"trainyard-data-scientist", "trainyard-viewer"}
    assert all(["pods", "get", "list"] in rules for rules in read.values())


OPEN = {"cidr": "fd00::/8", "excluded": ["fd00:1::/32"], "ports": [443]}
SAME = {"name": "default", "namespace": "team", "clusterQueue": "research"}


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            {"tenants": {"Team_A": TEAM}},
            "trainyard:platform.tenants.Team_A.[key]: must be a name of small letters, digits and hyphens, "
            "such as team-a; is 'Team_A'",
        ),
        (
            {"tenants": {"team": {**TEAM, "clusterQueue": "reserch"}}},
            "trainyard:platform.tenants.team.clusterQueue: there is no cluster queue 'reserch'; "
            "did you mean research?",
        ),
        (
            {
                "tenants": {"team": TEAM},
                "queues": {"clusterQueues": {"research": {}}, "localQueues": [SAME, {**SAME, "name": "b"}]},
            },
            "trainyard:platform.queues.localQueues[0]: tenants.team already declares the LocalQueue default "
            "in team: remove one of them",
        ),
        (
            {
                "tenants": {"team": TEAM, "marked": {**TEAM, "labels": {"jobs": "queued"}}},
                "kueue": {"enabled": True, "namespaceSelector": {"matchLabels": {"jobs": "queued"}}},
            },
            "trainyard:platform.tenants.team: kueue.namespaceSelector does not select the namespace team, so "
            "Kueue would ignore its jobs: add what the selector needs to tenants.team.labels, or change "
            "kueue.namespaceSelector",
        ),
        (
            {
                "queues": {
                    "clusterQueues": {"research": {}},
                    "localQueues": [{**SAME, "name": "b"}, SAME, SAME],
                }
            },
            "trainyard:platform.queues.localQueues[2]: queues.localQueues[1] already declares the LocalQueue "
            "default in team: remove one of them",
        ),
        (
            {"tenants": {"team": {**TEAM, "resourceQuota": {"amd.com/gpu": "8"}}}},
            "trainyard:platform.tenants.team.resourceQuota.amd.com/gpu: Kubernetes would not enforce it: "
            "write requests.amd.com/gpu",
        ),
        (
            {"tenants": {"team": {**TEAM, "viewers": [{"kind": "ServiceAccount", "name": "x"}]}}},
            "trainyard:platform.tenants.team.viewers[0]: only a ServiceAccount has a namespace",
        ),
        (
            {"tenants": {"team": {**TEAM, "egress": [{"cidr": "10.0.0.0/80"}]}}},
            "trainyard:platform.tenants.team.egress[0].cidr: must be a block of IP addresses, such as "
            "10.0.0.0/8; is '10.0.0.0/80'",
        ),
        (
            {"tenants": {"team": {**TEAM, "egress": [{"cidr": "example.com"}]}}},
            "trainyard:platform.tenants.team.egress[0].cidr: must be a block of IP addresses, such as "
            "10.0.0.0/8; is 'example.com'",
        ),
        (
            {
                "tenants": {
                    "team": {**TEAM, "egress": [OPEN, {"cidr": "10.0.0.0/8", "excluded": ["10.1.0.0"]}]}
                }
            },
            "trainyard:platform.tenants.team.egress[1].excluded[0]: must be a block of IP addresses, such as "
            "10.0.0.0/8; is '10.1.0.0'",
        ),
        *(
            (
                {"tenants": {"team": {**TEAM, "egress": [{"cidr": "10.0.0.0/8", "excluded": [block]}]}}},
                "trainyard:platform.tenants.team.egress[0].excluded: must be smaller blocks within cidr "
                f"10.0.0.0/8; is '{block}'",
            )
            for block in ("11.0.0.0/16", "10.0.0.0/8", "8.0.0.0/6", "fd00::/64")
        ),
        (
            {"tenants": {"team": {**TEAM, "egress": [{**OPEN, "ports": [443, 70000]}]}}},
            "trainyard:platform.tenants.team.egress[0].ports[1]: must be less than or equal to 65535; "
            "is 70000",
        ),
        (
            {"tenants": {"team": {**TEAM, "labels": {"cost center": "42"}}}},
            "trainyard:platform.tenants.team.labels.cost center.[key]: must be the key of a label or an "
            "annotation, such as cost-center or example.com/cost-center; is 'cost center'",
        ),
        (
            {"tenants": {"team": {**TEAM, "labels": {"team": "vision & speech"}}}},
            "trainyard:platform.tenants.team.labels.team: must be a label's value: at most 63 letters, "
            "digits, hyphens, underscores and dots; is 'vision & speech'",
        ),
        (
            {"tenants": {"team": {**TEAM, "labels": {"trainyard.dev/tenant": "other"}}}},
            "trainyard:platform.tenants.team.labels.trainyard.dev/tenant: is the platform's own: remove it",
        ),
        (
            {"tenants": {"team": {**TEAM, "labels": {"app.kubernetes.io/managed-by": "Helm"}}}},
            "trainyard:platform.tenants.team.labels.app.kubernetes.io/managed-by: is the platform's own: "
            "remove it",
        ),
        (
            {
                "tenants": {
                    "team": {**TEAM, "serviceAccounts": {"a": {"annotations": {"pulumi.com/skip": "1"}}}}
                }
            },
            "trainyard:platform.tenants.team.serviceAccounts.a.annotations.pulumi.com/skip: is the "
            "platform's own: remove it",
        ),
        (
            {"tenants": {"team": {**TEAM, "serviceAccounts": {"kubeflow-trainer-cache-initializer": {}}}}},
            "trainyard:platform.tenants.team.serviceAccounts.kubeflow-trainer-cache-initializer: is the data "
            "cache's: remove it",
        ),
        (
            {"tenants": {"team": {**TEAM, "externalSecrets": {"hub": {"store": {"name": "vault"}}}}}},
            "trainyard:platform.tenants.team.externalSecrets.hub: needs either `key`, which uses all fields "
            "of a secret, or `data`",
        ),
        (
            {
                "tenants": {
                    "team": {
                        **TEAM,
                        "externalSecrets": {
                            "hub": {"store": {"name": "vault"}, "data": {"a token": {"key": "hub"}}}
                        },
                    }
                }
            },
            "trainyard:platform.tenants.team.externalSecrets.hub.data.a token.[key]: must be a key of a "
            "Secret: letters, digits, dots, hyphens and underscores; is 'a token'",
        ),
        (
            {"tenants": {"team": {**TEAM, "rights": ["secret"]}}},
            "trainyard:platform.tenants.team.rights[0]: must be one of configmaps, persistentvolumeclaims, "
            "secrets, trainingruntimes, pods, pods/exec, pods/portforward; is 'secret'; "
            "did you mean secrets?",
        ),
        (
            {"kueue": {"enabled": True, "controller": "existing", "replicas": 2}},
            "trainyard:platform.kueue.replicas: kueue.controller existing has no use for it: remove it",
        ),
        (
            {"kueue": {"enabled": True, "namespace": "queues"}},
            "trainyard:platform.kueue.namespace: kueue.controller install has no use for it: remove it",
        ),
        (
            {"tenants": {"team": {**TEAM, "pullSecrets": ["Registry"]}}},
            "trainyard:platform.tenants.team.pullSecrets[0]: must be the name of an object: small letters, "
            "digits, hyphens and dots, such as registry.vision; is 'Registry'",
        ),
    ],
    ids=[
        "a name that no namespace can have",
        "a queue that is not there",
        "a queue that the stack declares already",
        "a namespace that Kueue ignores",
        "a queue that is declared twice",
        "a limit of nothing",
        "an account of nowhere",
        "a block that is longer than an address",
        "a block that is no block",
        "an excluded block that is no block",
        "an excluded block outside of the block",
        "an excluded block that is the whole block",
        "an excluded block that is larger",
        "an excluded block of the other IP version",
        "a port that there is not",
        "a key that no label can have",
        "a value that no label can have",
        "a label of the platform's",
        "another tool's mark",
        "an annotation that Pulumi reads",
        "an account of the data cache's",
        "a secret of nothing",
        "a key that no Secret can have",
        "a right that there is not",
        "settings of a Kueue that somebody else installs",
        "a namespace of the platform's Kueue",
        "a name that no Secret can have",
    ],
)
def test_a_wrong_tenant_is_one_sentence(given: dict[str, Any], message: str) -> None:
    base = {"operator": OPERATOR, "kueue": {"enabled": True}, "queues": {"clusterQueues": {"research": {}}}}
    with pytest.raises(PlatformError) as stopped:
        settings.load(json.dumps({**base, **given}), "demo")
    assert str(stopped.value) == f"stacks/Pulumi.demo.yaml is not valid:\n  {message}"
