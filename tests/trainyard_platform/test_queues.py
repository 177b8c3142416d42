"""Queues as the stack file says them become Kueue's objects, and a wrong name is a sentence."""

import json
from dataclasses import dataclass, field
from typing import Any

import pytest

from trainyard_platform.errors import PlatformError
from trainyard_platform.parts.queues import manifests as queue_manifests
from trainyard_platform.parts.queues import multikueue_manifests
from trainyard_platform.stack import settings
from trainyard_platform.stack.kueue import Integration
from trainyard_platform.stack.queues import Queues

OPERATOR = {"image": "docker.io/trainyard/operator:1"}
QUOTA = {"resources": {"cpu": {"nominal": "4"}}}


POOL = {"provider": "kwok", "nodes": 2, "machine": {"cpu": "4", "memory": "8Gi"}}
HALF = {"clusterQueue": "team", "nodes": 1}


def manifests(**queues: Any) -> list[dict[str, Any]]:
    return queue_manifests.manifests(Queues.model_validate(queues))


def kueue(kind: str, name: str, **content: Any) -> dict[str, Any]:
    return {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": kind, "metadata": {"name": name}, **content}


def test_a_flavor_and_its_topology() -> None:
    assert manifests(
        topologies={"racks": {"levels": ["example.com/rack", "kubernetes.io/hostname"]}},
        flavors={
            "a100": {
                "nodeLabels": {"example.com/gpu": "a100"},
                "nodeTaints": [{"key": "nvidia.com/gpu", "value": "present"}],
                "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}],
                "topology": "racks",
            }
        },
    ) == [
        kueue(
            "Topology",
            "racks",
            spec={"levels": [{"nodeLabel": "example.com/rack"}, {"nodeLabel": "kubernetes.io/hostname"}]},
        ),
        kueue(
            "ResourceFlavor",
            "a100",
            spec={
                "nodeLabels": {"example.com/gpu": "a100"},
                "nodeTaints": [{"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}],
                "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}],
                "topologyName": "racks",
            },
        ),
    ]


def test_a_queue_with_everything_that_can_be_said_of_it() -> None:
    quota = {
        "cpu": {"nominal": "4", "borrowingLimit": "2", "lendingLimit": "1"},
        "memory": {"nominal": "8Gi"},
    }
    # Kueue insists on the order of coveredResources, whatever that of the settings is.
    reversed_quota = {"memory": {"nominal": "1Gi"}, "cpu": {"nominal": "0"}}
    assert manifests(
        clusterQueues={
            "team": {
                "cohort": "all",
                "resourceGroups": [
                    {
                        "flavors": [
                            {"name": "a", "resources": quota},
                            {"name": "b", "resources": reversed_quota},
                        ]
                    }
                ],
                "queueingStrategy": "StrictFIFO",
                "preemption": {"borrowWithinCohort": "LowerPriority", "withinClusterQueue": "Never"},
                "flavorFungibility": {"whenCanPreempt": "MayStopSearch"},
                "namespaceSelector": {"matchLabels": {"team": "x"}},
                "admissionChecks": [{"name": "nodes", "onFlavors": ["a"]}],
                "fairWeight": "2",
                "stopPolicy": "Hold",
            }
        }
    ) == [
        kueue(
            "ClusterQueue",
            "team",
            spec={
                "cohortName": "all",
                "resourceGroups": [
                    {
                        "coveredResources": ["cpu", "memory"],
                        "flavors": [
                            {
                                "name": "a",
                                "resources": [
                                    {
                                        "name": "cpu",
                                        "nominalQuota": "4",
                                        "borrowingLimit": "2",
                                        "lendingLimit": "1",
                                    },
                                    {"name": "memory", "nominalQuota": "8Gi"},
                                ],
                            },
                            {
                                "name": "b",
                                "resources": [
                                    {"name": "cpu", "nominalQuota": "0"},
                                    {"name": "memory", "nominalQuota": "1Gi"},
                                ],
                            },
                        ],
                    }
                ],
                "admissionChecksStrategy": {"admissionChecks": [{"name": "nodes", "onFlavors": ["a"]}]},
                "fairSharing": {"weight": "2"},
                "namespaceSelector": {"matchLabels": {"team": "x"}},
                "queueingStrategy": "StrictFIFO",
                "preemption": {
                    "withinClusterQueue": "Never",
                    "reclaimWithinCohort": "Any",
                    "borrowWithinCohort": {"policy": "LowerPriority"},
                },
                "flavorFungibility": {"whenCanBorrow": "MayStopSearch", "whenCanPreempt": "MayStopSearch"},
                "stopPolicy": "Hold",
            },
        )
    ]


def test_cohorts_doors_priorities_and_checks() -> None:
    assert manifests(
        cohorts={"all": {}, "research": {"parent": "all", "fairWeight": "3"}},
        localQueues=[{"name": "main", "namespace": "team-a", "clusterQueue": "team"}],
        priorities={"high": {"value": 100, "description": "Goes first."}},
        admissionChecks={
            "nodes": {
                "controllerName": "kueue.x-k8s.io/provisioning-request",
                "parameters": {
                    "apiGroup": "kueue.x-k8s.io",
                    "kind": "ProvisioningRequestConfig",
                    "name": "gpus",
                },
            }
        },
    ) == [
        kueue(
            "AdmissionCheck",
            "nodes",
            spec={
                "controllerName": "kueue.x-k8s.io/provisioning-request",
                "parameters": {
                    "apiGroup": "kueue.x-k8s.io",
                    "kind": "ProvisioningRequestConfig",
                    "name": "gpus",
                },
            },
        ),
        kueue("WorkloadPriorityClass", "high", value=100, description="Goes first."),
        kueue("Cohort", "all", spec={}),
        kueue("Cohort", "research", spec={"parentName": "all", "fairSharing": {"weight": "3"}}),
        {
            "apiVersion": "kueue.x-k8s.io/v1beta2",
            "kind": "LocalQueue",
            "metadata": {"name": "main", "namespace": "team-a"},
            "spec": {"clusterQueue": "team", "stopPolicy": "None"},
        },
    ]


def test_a_manager_has_a_cluster_a_worker_and_a_check_for_those_it_sends_jobs_to() -> None:
    assert manifests(
        multiKueue={
            "workers": {
                "east": {"kubeconfigSecret": "east-kubeconfig"},
                "west": {"kubeconfigSecret": "west-kubeconfig"},
            },
            "dispatch": {"elsewhere": {"workers": ["west", "east"]}},
        }
    ) == [
        *(
            kueue(
                "MultiKueueCluster",
                name,
                spec={
                    "clusterSource": {
                        "kubeConfig": {"location": f"{name}-kubeconfig", "locationType": "Secret"}
                    }
                },
            )
            for name in ("east", "west")
        ),
        kueue("MultiKueueConfig", "elsewhere", spec={"clusters": ["west", "east"]}),
        kueue(
            "AdmissionCheck",
            "elsewhere",
            spec={
                "controllerName": "kueue.x-k8s.io/multikueue",
                "parameters": {
                    "apiGroup": "kueue.x-k8s.io",
                    "kind": "MultiKueueConfig",
                    "name": "elsewhere",
                },
            },
        ),
    ]


def test_a_worker_lets_a_manager_send_jobs_and_see_what_becomes_of_them_and_nothing_else() -> None:
    kinds = [Integration.TRAINJOB, Integration.JOB]
    account, role, binding = multikueue_manifests.worker("kueue-system", kinds)
    sent = ["create", "delete", "get", "list", "watch"]
    assert account == {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": {"name": "trainyard-multikueue", "namespace": "kueue-system"},
    }
    assert role["rules"] == [
        {"apiGroups": ["kueue.x-k8s.io"], "resources": ["workloads"], "verbs": [*sent, "patch", "update"]},
        {
            "apiGroups": ["kueue.x-k8s.io"],
            "resources": ["workloads/status"],
            "verbs": ["get", "patch", "update"],
        },
        {"apiGroups": ["trainer.kubeflow.org"], "resources": ["trainjobs"], "verbs": sent},
        {"apiGroups": ["batch"], "resources": ["jobs"], "verbs": [*sent, "patch"]},
        {"apiGroups": ["trainer.kubeflow.org"], "resources": ["trainjobs/status"], "verbs": ["get"]},
        {"apiGroups": ["batch"], "resources": ["jobs/status"], "verbs": ["get"]},
    ]
    assert binding["roleRef"]["name"] == role["metadata"]["name"] == "trainyard-multikueue"
    assert binding["subjects"] == [
        {"kind": "ServiceAccount", "name": "trainyard-multikueue", "namespace": "kueue-system"}
    ]


def test_a_queue_that_is_stopped_or_waits_for_checks_is_not_waited_for() -> None:
    queues = Queues.model_validate(
        {
            "clusterQueues": {
                "open": {},
                "held": {"stopPolicy": "Hold"},
                "checked": {"admissionChecks": [{"name": "nodes"}]},
            }
        }
    )
    active = {name: queue_manifests.becomes_active(one) for name, one in queues.cluster_queues.items()}
    assert active == {"open": True, "held": False, "checked": False}


def group(*flavors: str, **quota: str) -> dict[str, Any]:
    """A resource group with the same quota of CPUs in each flavor."""
    resources = {"cpu": {"nominal": "4", **quota}}
    return {"flavors": [{"name": flavor, "resources": resources} for flavor in flavors]}


@dataclass(frozen=True)
class Case:
    id: str
    queues: Any
    message: str
    pools: Any = field(default_factory=dict)


CASES = [
    Case(
        id="a cohort that is not there",
        queues={"cohorts": {"research": {}}, "clusterQueues": {"team": {"cohort": "reserch"}}},
        message="clusterQueues.team.cohort: there is no cohort 'reserch'; did you mean research?",
    ),
    Case(
        id="a flavor that is not there",
        queues={"clusterQueues": {"team": {"resourceGroups": [{"flavors": [{"name": "h100", **QUOTA}]}]}}},
        message="clusterQueues.team.resourceGroups[0].flavors[0].name: there is no flavor 'h100'",
    ),
    Case(
        id="a topology that is not there",
        queues={"flavors": {"cpu": {"topology": "racks", "nodeLabels": {"kind": "cpu"}}}},
        message="flavors.cpu.topology: there is no topology 'racks'",
    ),
    Case(
        id="a cluster queue that is not there",
        queues={"localQueues": [{"name": "main", "namespace": "a", "clusterQueue": "team"}]},
        message="localQueues[0].clusterQueue: there is no cluster queue 'team'",
    ),
    Case(
        id="an admission check that is not there",
        queues={"clusterQueues": {"team": {"admissionChecks": [{"name": "nodes"}]}}},
        message="clusterQueues.team.admissionChecks[0].name: there is no admission check 'nodes'",
    ),
    Case(
        id="an admission check that is listed twice",
        queues={
            "admissionChecks": {"nodes": {"controllerName": "example.com/nodes"}},
            "clusterQueues": {"team": {"admissionChecks": [{"name": "nodes"}, {"name": "nodes"}]}},
        },
        message="clusterQueues.team.admissionChecks[1].name: 'nodes' is listed twice: list all of its "
        "flavors in one onFlavors",
    ),
    Case(
        id="a toleration of any value with a value",
        queues={"flavors": {"a": {"tolerations": [{"key": "a", "operator": "Exists", "value": "b"}]}}},
        message="flavors.a.tolerations[0]: operator Exists has no use for the value 'b': remove one of "
        "the two",
    ),
    *(
        Case(
            id=f"nine {key} of a flavor",
            queues={"flavors": {"a": {key: nine}}},
            message=f"flavors.a.{key}: a flavor of Kueue has at most 8 of them; has 9",
        )
        for key, nine in (
            ("nodeLabels", {f"label-{number}": "x" for number in range(9)}),
            ("nodeTaints", [{"key": f"taint-{number}"} for number in range(9)]),
            ("tolerations", [{"key": f"taint-{number}"} for number in range(9)]),
        )
    ),
    Case(
        id="a taint that is listed twice",
        queues={"flavors": {"a": {"nodeTaints": [{"key": "a"}, {"key": "a", "value": "b"}]}}},
        message="flavors.a.nodeTaints[1]: a with the effect NoSchedule is listed twice",
    ),
    Case(
        id="eight taints of a pool beside that of its provider",
        queues={"clusterQueues": {"team": {}}},
        pools={"gpu": {**POOL, "taints": [{"key": f"taint-{number}"} for number in range(8)]}},
        message="nodePools.gpu.taints: a flavor of Kueue has at most 8 of them; has 9",
    ),
    Case(
        id="a worker that is not there",
        queues={
            "multiKueue": {
                "workers": {"west": {"kubeconfigSecret": "west"}},
                "dispatch": {"elsewhere": {"workers": ["wets"]}},
            }
        },
        message="multiKueue.dispatch.elsewhere.workers[0]: there is no worker 'wets'; did you mean west?",
    ),
    Case(
        id="a worker that is there twice",
        queues={
            "multiKueue": {
                "workers": {"west": {"kubeconfigSecret": "west"}},
                "dispatch": {"elsewhere": {"workers": ["west", "west"]}},
            }
        },
        message="multiKueue.dispatch.elsewhere.workers[1]: 'west' is listed twice",
    ),
    Case(
        id="a dispatch with the name of a check",
        queues={
            "admissionChecks": {"elsewhere": {"controllerName": "example.com/check"}},
            "multiKueue": {
                "workers": {"west": {"kubeconfigSecret": "west"}},
                "dispatch": {"elsewhere": {"workers": ["west"]}},
            },
        },
        message="multiKueue.dispatch.elsewhere: admissionChecks already has one of this name",
    ),
    Case(
        id="a weight that nobody heeds",
        queues={"cohorts": {"all": {"fairWeight": "2"}}},
        message="cohorts.all.fairWeight: has no effect unless kueue.fairSharing is true",
    ),
    Case(
        id="flavors of a group for different resources",
        queues={
            "flavors": {"a": {}, "b": {}},
            "clusterQueues": {
                "team": {
                    "resourceGroups": [
                        {
                            "flavors": [
                                {"name": "a", **QUOTA},
                                {"name": "b", "resources": {"memory": {"nominal": "1Gi"}}},
                            ]
                        }
                    ]
                }
            },
        },
        message="clusterQueues.team.resourceGroups[0]: all flavors of a group have quota for the same "
        "resources: a for cpu, b for memory",
    ),
    Case(
        id="a resource in two groups",
        queues={
            "flavors": {"a": {}, "b": {}},
            "clusterQueues": {"team": {"resourceGroups": [group("a"), group("b")]}},
        },
        message="clusterQueues.team.resourceGroups[1]: cpu is in queues.clusterQueues.team.resourceGroups[0] "
        "already: put the flavors of both into one group",
    ),
    Case(
        id="a flavor twice",
        queues={"flavors": {"a": {}}, "cohorts": {"all": {"resourceGroups": [group("a", "a")]}}},
        message="cohorts.all.resourceGroups[0].flavors[1].name: 'a' is listed twice",
    ),
    Case(
        id="a limit where nobody lends",
        queues={
            "flavors": {"a": {}},
            "clusterQueues": {"team": {"resourceGroups": [group("a", borrowingLimit="1")]}},
        },
        message="clusterQueues.team.resourceGroups[0].flavors[0].resources.cpu.borrowingLimit: has no use "
        "without queues.clusterQueues.team.cohort: set that, or remove the limit",
    ),
    Case(
        id="a limit of a cohort that nobody is above",
        queues={
            "flavors": {"a": {}},
            "cohorts": {"all": {"resourceGroups": [group("a", lendingLimit="1")]}},
        },
        message="cohorts.all.resourceGroups[0].flavors[0].resources.cpu.lendingLimit: has no use "
        "without queues.cohorts.all.parent: set that, or remove the limit",
    ),
    Case(
        id="more to lend than there is",
        queues={
            "flavors": {"a": {}},
            "cohorts": {"all": {}},
            "clusterQueues": {
                "team": {"cohort": "all", "resourceGroups": [group("a", lendingLimit="4001m")]}
            },
        },
        message="clusterQueues.team.resourceGroups[0].flavors[0].resources.cpu.lendingLimit: 4001m is more "
        "than the nominal quota, 4",
    ),
    Case(
        id="cohorts that are above each other",
        queues={"cohorts": {"a": {"parent": "b"}, "b": {"parent": "a"}, "c": {"parent": "a"}}},
        message="cohorts.a.parent: makes a circle: a -> b -> a",
    ),
    Case(
        id="a check for a flavor of another queue",
        queues={
            "flavors": {"a": {}, "b": {}},
            "admissionChecks": {"nodes": {"controllerName": "example.com/check"}},
            "clusterQueues": {
                "team": {
                    "resourceGroups": [group("a")],
                    "admissionChecks": [{"name": "nodes", "onFlavors": ["a", "b"]}],
                }
            },
        },
        message="clusterQueues.team.admissionChecks[0].onFlavors[1]: the queue has no quota in flavor 'b'",
    ),
    Case(
        id="a topology of nodes without labels",
        queues={"topologies": {"racks": {"levels": ["rack"]}}, "flavors": {"a": {"topology": "racks"}}},
        message="flavors.a.nodeLabels: is required with a topology",
    ),
    Case(
        id="a level twice",
        queues={"topologies": {"racks": {"levels": ["rack", "rack"]}}},
        message="topologies.racks.levels[1]: rack is listed twice",
    ),
    Case(
        id="a node above a rack",
        queues={"topologies": {"racks": {"levels": ["kubernetes.io/hostname", "rack"]}}},
        message="topologies.racks.levels[0]: kubernetes.io/hostname can only be the last level",
    ),
    Case(
        id="a preemption that Kueue refuses",
        queues={
            "clusterQueues": {
                "team": {
                    "preemption": {"reclaimWithinCohort": "Never", "borrowWithinCohort": "LowerPriority"}
                }
            }
        },
        message="clusterQueues.team.preemption: borrowWithinCohort LowerPriority needs reclaimWithinCohort "
        "LowerPriority or Any; it is Never",
    ),
    Case(
        id="a preemption of another field",
        queues={"clusterQueues": {"team": {"preemption": {"withinClusterQueue": "Any"}}}},
        message="clusterQueues.team.preemption.withinClusterQueue: must be one of Never, LowerPriority, "
        "LowerOrNewerEqualPriority; is 'Any'",
    ),
    Case(
        id="a name that no object can have",
        queues={"clusterQueues": {"Team_A": {}}},
        message="clusterQueues.Team_A.[key]: must be the name of an object: small letters, digits, hyphens "
        "and dots, such as registry.vision; is 'Team_A'",
    ),
    Case(
        id="a name that no label can have",
        queues={
            "clusterQueues": {"team": {}},
            "localQueues": [{"name": "a" * 64, "namespace": "a", "clusterQueue": "team"}],
        },
        message="localQueues[0].name: must have at most 63 characters; has 64",
    ),
    Case(
        id="a pool twice in a queue",
        queues={"clusterQueues": {"team": {}}},
        pools={"gpu": {**POOL, "quota": [HALF, HALF]}},
        message="nodePools.gpu.quota[1].clusterQueue: 'team' is listed twice",
    ),
    Case(
        id="a pool that its queue lists itself",
        queues={"clusterQueues": {"team": {"resourceGroups": [group("gpu")]}}},
        pools={"gpu": {**POOL, "quota": [HALF]}},
        message="nodePools.gpu.quota[0]: queues.clusterQueues.team lists the flavor gpu itself: remove one "
        "of the two",
    ),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_a_wrong_name_is_one_sentence(case: Case) -> None:
    with pytest.raises(PlatformError) as stopped:
        load({"kueue": {"enabled": True}, "queues": case.queues, "nodePools": case.pools})
    section = "" if case.message.startswith("nodePools") else "queues."
    assert str(stopped.value) == (
        f"stacks/Pulumi.demo.yaml is not valid:\n  trainyard:platform.{section}{case.message}"
    )


TRAINJOB, JOBSET = "trainer.kubeflow.org/trainjob", "jobset.x-k8s.io/jobset"


@pytest.mark.parametrize(
    ("kueue", "queues", "holds_jobsets"),
    [
        ({}, {}, True),
        ({"integrations": [TRAINJOB]}, {}, False),
        ({"integrations": [JOBSET, TRAINJOB]}, {}, False),
        ({"controller": "existing"}, {}, False),
        ({"controller": "existing", "integrations": [JOBSET]}, {}, True),
        ({}, {"multiKueue": {"acceptsJobs": True}}, False),
    ],
)
def test_queues_hold_jobsets_unless_kueue_is_there_already_or_sends_jobs_elsewhere(
    kueue: dict[str, Any], queues: dict[str, Any], holds_jobsets: bool
) -> None:
    stack = load({"kueue": {"enabled": True, **kueue}, "queues": queues})
    assert stack.queues_hold_jobsets is holds_jobsets


NO_TRAINJOBS = (
    f"integrations: needs {JOBSET} or {TRAINJOB}: otherwise, nothing would queue TrainJobs, and no tenant "
    "could create one"
)


@pytest.mark.parametrize(
    ("kueue", "message"),
    [
        ({"integrations": []}, NO_TRAINJOBS),
        ({"integrations": ["batch/job", "pod"]}, NO_TRAINJOBS),
        ({"integrations": ["pod"], "controller": "existing"}, NO_TRAINJOBS),
        ({"integrations": [JOBSET, "pod", "pod"]}, "integrations[2]: pod is listed twice"),
        (
            {"namespaceSelector": {}},
            "namespaceSelector: selects kube-system and kueue-system, and Kueue does not start with such a "
            "selector: add {key: kubernetes.io/metadata.name, operator: NotIn, values: [kube-system, "
            "kueue-system]} to matchExpressions",
        ),
        (
            {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "kueue-system"}}},
            "namespaceSelector: selects kueue-system, and Kueue does not start with such a selector: add "
            "{key: kubernetes.io/metadata.name, operator: NotIn, values: [kueue-system]} to matchExpressions",
        ),
    ],
)
def test_a_kueue_that_would_queue_no_trainjob_or_not_start_is_refused(
    kueue: dict[str, Any], message: str
) -> None:
    with pytest.raises(PlatformError) as stopped:
        load({"kueue": {"enabled": True, **kueue}})
    assert (
        str(stopped.value) == f"stacks/Pulumi.demo.yaml is not valid:\n  trainyard:platform.kueue.{message}"
    )


def test_all_namespaces_but_those_of_the_system_can_be_kueues_and_all_of_another_kueue() -> None:
    others = {
        "key": "kubernetes.io/metadata.name",
        "operator": "NotIn",
        "values": ["kube-system", "kueue-system"],
    }
    load({"kueue": {"enabled": True, "namespaceSelector": {"matchExpressions": [others]}}})
    load({"kueue": {"enabled": True, "controller": "existing", "namespaceSelector": {}}})


def test_multikueue_with_queues_that_hold_jobsets_is_refused() -> None:
    with pytest.raises(PlatformError) as stopped:
        load(
            {
                "kueue": {"enabled": True, "integrations": [JOBSET]},
                "queues": {"multiKueue": {"acceptsJobs": True}},
            }
        )
    assert str(stopped.value) == (
        "stacks/Pulumi.demo.yaml is not valid:\n"
        f"  trainyard:platform.queues.multiKueue: needs {TRAINJOB} in kueue.integrations, since what is "
        "beside a JobSet (the key and the hosts of an MPI job, the PodGroup of a gang) does not travel with "
        "it"
    )


SHARED = {
    "provider": "existing",
    "nodes": 2,
    "machine": {"cpu": "4", "memory": "8Gi"},
    "quota": [{"clusterQueue": "team"}],
}


def test_a_pool_is_advised_against_if_it_also_selects_the_nodes_of_another() -> None:
    pools = {
        "gpu": {**SHARED, "nodeLabels": {"kind": "gpu"}},
        "rack": {**SHARED, "nodeLabels": {"kind": "gpu", "rack": "1"}},
        "same": {**SHARED, "nodeLabels": {"rack": "1", "kind": "gpu"}},
        "unused": {**SHARED, "nodeLabels": {"kind": "gpu"}, "quota": [], "nodes": 0},
        "made": {**SHARED, "provider": "kwok", "nodeLabels": {"kind": "made"}},
        "found": {**SHARED, "nodeLabels": {"kind": "made"}},
        "cpu": {**SHARED, "nodeLabels": {"kind": "cpu"}},
    }
    stack = load({"kueue": {"enabled": True}, "queues": {"clusterQueues": {"team": {}}}, "nodePools": pools})
    others = {"gpu": "rack", "rack": "same", "found": "made"}
    assert stack.advice() == {
        f"nodePools.{name}": f"its nodeLabels also select the nodes of the pool {other}, so these nodes can "
        "be in the quota twice: add a label that only nodes of this pool have, or declare one pool and "
        "divide it with `quota`"
        for name, other in others.items()
    }


IGNORED = (
    "kueue.namespaceSelector does not select the namespace elsewhere, so Kueue never admits a job of this "
    "queue: declare the namespace in tenants, or change kueue.namespaceSelector"
)


@pytest.mark.parametrize(
    ("kueue", "advice"),
    [
        ({}, {"queues.localQueues[1]": IGNORED}),
        (
            {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "research"}}},
            {"queues.localQueues[1]": IGNORED},
        ),
        ({"namespaceSelector": {"matchLabels": {"given-by": "others"}}}, {}),
        ({"controller": "existing"}, {}),
    ],
)
def test_a_local_queue_is_advised_against_where_kueue_ignores_its_namespace_whatever_labels_it_gets(
    kueue: dict[str, Any], advice: dict[str, str]
) -> None:
    tenants = {"research": {"clusterQueue": "team", "labels": {"given-by": "others"}}}
    doors = [
        {"name": "more", "namespace": namespace, "clusterQueue": "team"}
        for namespace in ("research", "elsewhere")
    ]
    queues = {"clusterQueues": {"team": {}}, "localQueues": doors}
    stack = load({"kueue": {"enabled": True, **kueue}, "queues": queues, "tenants": tenants})
    assert stack.advice() == advice


def test_a_pool_without_kueue_has_no_flavor_and_so_more_labels_than_one() -> None:
    many = {f"label-{number}": "x" for number in range(9)}
    load({"nodePools": {"cpu": {**SHARED, "nodeLabels": many, "quota": []}}})


def test_queues_without_kueue_are_refused() -> None:
    with pytest.raises(PlatformError) as stopped:
        load({"queues": {"cohorts": {"all": {}}}})
    assert str(stopped.value) == (
        "stacks/Pulumi.demo.yaml is not valid:\n"
        "  trainyard:platform.queues: need Kueue: set kueue.enabled to true, or remove them"
    )


def load(given: dict[str, Any]) -> settings.StackSettings:
    return settings.load(json.dumps({"operator": OPERATOR, **given}), "demo")
