"""The strategic merge patch: semantics by example, by property, and against kubectl itself."""

import copy
import json
import subprocess

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from trainyard_api.errors import InvalidFieldError
from trainyard_api.merge import JOBSET_SPEC, POD, POD_SPEC, WORKLOAD, strategic_merge
from trainyard_sandbox.toolchain import Toolchain


def names(items):
    return [item["name"] for item in items]


def named(*wanted):
    return [{"name": name} for name in wanted]


@pytest.mark.parametrize(
    ("live", "patch", "merged"),
    [
        pytest.param({"a": 1, "b": 2}, {"b": 3, "c": 4}, {"a": 1, "b": 3, "c": 4}, id="fields are set"),
        pytest.param({"a": 1, "b": 2}, {"b": None, "c": None}, {"a": 1}, id="null deletes"),
        pytest.param(
            {"securityContext": {"runAsUser": 1, "fsGroup": 2}},
            {"securityContext": {"fsGroup": 3}},
            {"securityContext": {"runAsUser": 1, "fsGroup": 3}},
            id="objects merge",
        ),
        pytest.param(
            {"tolerations": [{"key": "a"}]},
            {"tolerations": [{"key": "b"}]},
            {"tolerations": [{"key": "b"}]},
            id="tolerations are replaced",
        ),
        pytest.param(
            {"nodeSelector": {"a": "1"}},
            {"nodeSelector": {"b": "2"}},
            {"nodeSelector": {"a": "1", "b": "2"}},
            id="node selectors merge",
        ),
        pytest.param(
            {"volumes": [{"name": "v", "emptyDir": {}}]},
            {"volumes": [{"name": "v", "configMap": {"name": "c"}}]},
            {"volumes": [{"name": "v", "emptyDir": {}, "configMap": {"name": "c"}}]},
            id="a volume keeps the source that it had",
        ),
        pytest.param(
            {"volumes": [{"name": "v", "emptyDir": {}}]},
            {"volumes": [{"name": "v", "configMap": {"name": "c"}, "$retainKeys": ["name", "configMap"]}]},
            {"volumes": [{"name": "v", "configMap": {"name": "c"}}]},
            id="unless $retainKeys says otherwise",
        ),
        pytest.param(
            {"containers": named("a", "b")},
            {"containers": [{"name": "a", "$patch": "delete"}]},
            {"containers": named("b")},
            id="$patch delete removes an element",
        ),
        pytest.param(
            {"containers": named("a", "b")},
            {"containers": [{"$patch": "replace"}, {"name": "c"}]},
            {"containers": named("c")},
            id="$patch replace replaces a list",
        ),
        pytest.param(
            {"affinity": {"a": 1}},
            {"affinity": {"$patch": "replace", "b": 2}},
            {"affinity": {"b": 2}},
            id="and an object",
        ),
        pytest.param(
            {"affinity": {"a": 1}}, {"affinity": {"$patch": "delete"}}, {"affinity": {}}, id="or empties it"
        ),
        pytest.param({"a": [1]}, {"a": {"b": None, "c": 1}}, {"a": {"c": 1}}, id="another type replaces"),
        pytest.param(
            {},
            {"containers": [{"name": "a", "x": None}]},
            {"containers": named("a")},
            id="nulls never arrive",
        ),
        pytest.param(
            {
                "containers": [
                    {"name": "a", "ports": [{"containerPort": 1}, {"containerPort": 1, "protocol": "UDP"}]}
                ]
            },
            {"containers": [{"name": "a", "ports": [{"containerPort": 1, "name": "x"}]}]},
            {
                "containers": [
                    {
                        "name": "a",
                        "ports": [{"containerPort": 1, "name": "x"}, {"containerPort": 1, "protocol": "UDP"}],
                    }
                ]
            },
            id="of two elements with one key the first is patched",
        ),
    ],
)
def test_a_pod_spec_is_patched(live, patch, merged):
    before = copy.deepcopy((live, patch))
    assert strategic_merge(live, patch, POD_SPEC) == merged
    assert (live, patch) == before


@pytest.mark.parametrize(
    ("live", "patch", "merged"),
    [
        ("ABC", "ZBC", "ZABC"),
        ("AB", "BA", "BA"),
        ("ABC", "C", "ABC"),
        ("ABC", "B", "ABC"),
        ("AB", "C", "CAB"),
        ("", "AB", "AB"),
    ],
)
def test_the_patchs_order_wins_and_what_is_only_live_keeps_its_place_before_it(live, patch, merged):
    result = strategic_merge({"containers": named(*live)}, {"containers": named(*patch)}, POD_SPEC)
    assert "".join(names(result["containers"])) == merged


def test_the_jobs_of_a_jobset_and_what_is_in_them_are_matched_by_name():
    def jobs(container):
        template = {"spec": {"template": {"spec": {"containers": [container]}}}}
        return {"replicatedJobs": [{"name": "node", "template": template}]}

    live = jobs({"name": "node", "image": "i", "volumeMounts": [{"mountPath": "/a", "name": "x"}]})
    patch = jobs({"name": "node", "volumeMounts": [{"mountPath": "/b", "name": "x"}]})
    mounts = [{"mountPath": "/b", "name": "x"}, {"mountPath": "/a", "name": "x"}]
    assert strategic_merge(live, patch, JOBSET_SPEC) == jobs(
        {"name": "node", "image": "i", "volumeMounts": mounts}
    )


@pytest.mark.parametrize(
    ("patch", "message"),
    [
        (
            {"containers": [{"image": "i"}]},
            "containers[0].name: Required value: elements of this list are matched by it",
        ),
        ({"containers": ["a"]}, 'containers[0]: Invalid value: "str": must be an object'),
        ({"$patch": "merge"}, '$patch: Invalid value: "merge": must be delete or replace'),
        (
            {"containers": [{"name": "a", "$patch": 1}]},
            "containers[0].$patch: Invalid value: 1: must be delete or replace",
        ),
        ({"$retainKeys": 1}, '$retainKeys: Invalid value: "int": must be a list'),
        (
            {"$retainKeys": ["a"], "b": 1},
            '$retainKeys: Invalid value: ["a"]: must list b, which the patch sets',
        ),
    ],
)
def test_a_patch_that_cannot_be_applied_is_refused_with_its_place(patch, message):
    with pytest.raises(InvalidFieldError) as raised:
        strategic_merge({"containers": named("a")}, patch, POD_SPEC)
    assert str(raised.value) == message


NAMES = st.sampled_from("abcd")
ENV = st.lists(
    st.fixed_dictionaries({"name": NAMES, "value": NAMES}), max_size=3, unique_by=lambda e: e["name"]
)
CONTAINERS = st.lists(
    st.fixed_dictionaries({"name": NAMES, "image": NAMES}, optional={"env": ENV}),
    max_size=3,
    unique_by=lambda c: str(c["name"]),
)
SPECS = st.fixed_dictionaries(
    {"containers": CONTAINERS}, optional={"nodeSelector": st.dictionaries(NAMES, NAMES), "hostname": NAMES}
)


@given(live=SPECS, patch=SPECS)
def test_merging_twice_is_merging_once(live, patch):
    once = strategic_merge(live, patch, POD_SPEC)
    assert strategic_merge(once, patch, POD_SPEC) == once


@given(live=SPECS, patch=SPECS)
def test_every_element_of_both_sides_is_there_once_and_the_patchs_come_in_its_order(live, patch):
    merged = names(strategic_merge(live, patch, POD_SPEC)["containers"])
    mine = names(patch["containers"])
    assert sorted(merged) == sorted({*names(live["containers"]), *mine})
    assert [name for name in merged if name in mine] == mine


@given(live=SPECS)
def test_an_empty_patch_changes_nothing(live):
    assert strategic_merge(live, {}, POD_SPEC) == live


CONTAINER = {
    "name": "node",
    "image": "i",
    "command": ["a", "b"],
    "env": [{"name": n, "value": "live"} for n in "ABC"],
    "ports": [{"containerPort": 1, "protocol": "TCP"}, {"containerPort": 2, "protocol": "TCP"}],
    "volumeMounts": [{"name": "v", "mountPath": "/a"}, {"name": "v", "mountPath": "/b"}],
    "resources": {"limits": {"cpu": "1"}},
    "securityContext": {"runAsUser": 1, "capabilities": {"add": ["X"]}},
}
POD_TEMPLATE_SPEC = {
    "containers": [{"name": "side", "image": "s"}, CONTAINER, {"name": "last", "image": "l"}],
    "initContainers": [{"name": "pre", "image": "p"}],
    "nodeSelector": {"a": "1"},
    "tolerations": [{"key": "t", "operator": "Exists"}],
    "volumes": [{"name": "v", "emptyDir": {}}, {"name": "w", "emptyDir": {}}],
    "imagePullSecrets": [{"name": "one"}, {"name": "two"}],
    "hostAliases": [{"ip": "1.1.1.1", "hostnames": ["a"]}],
    "schedulingGates": [{"name": "g/1"}],
    "affinity": {
        "nodeAffinity": {
            "preferredDuringSchedulingIgnoredDuringExecution": [
                {"weight": 1, "preference": {"matchExpressions": [{"key": "k", "operator": "Exists"}]}}
            ]
        }
    },
}
POD_PATCH = {
    "containers": [
        {
            "name": "node",
            "command": ["c"],
            "env": [
                {"name": "Z", "value": "new"},
                {"name": "B", "value": "new"},
                {"name": "C", "$patch": "delete"},
            ],
            "ports": [{"containerPort": 3, "protocol": "TCP"}, {"containerPort": 1, "name": "one"}],
            "volumeMounts": [{"name": "w", "mountPath": "/b"}],
            "resources": {"limits": {"memory": "1Gi"}},
            "securityContext": {"runAsUser": None, "capabilities": {"add": ["Y"]}},
        },
        {"name": "new", "image": "n"},
        {"name": "side", "image": "s2"},
    ],
    "nodeSelector": {"b": "2"},
    "tolerations": [{"key": "u", "operator": "Exists"}],
    "volumes": [{"name": "v", "$retainKeys": ["name", "configMap"], "configMap": {"name": "c"}}],
    "imagePullSecrets": [{"name": "three"}, {"name": "two"}],
    "hostAliases": [{"ip": "2.2.2.2", "hostnames": ["b"]}],
    "schedulingGates": [{"name": "g/2"}],
    "affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": []}},
}


def a_pod(spec):
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}, "spec": spec}


def a_deployment(spec):
    labels = {"app": "x"}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "x"},
        "spec": {
            "selector": {"matchLabels": labels},
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1}},
            "template": {"metadata": {"labels": labels}, "spec": spec},
        },
    }


KUBECTL_CASES = [
    pytest.param(POD, a_pod(POD_TEMPLATE_SPEC), {"spec": POD_PATCH}, id="a Pod"),
    pytest.param(
        POD,
        a_pod(POD_TEMPLATE_SPEC),
        {"spec": {"containers": [{"$patch": "replace"}, CONTAINER], "affinity": {"$patch": "delete"}}},
        id="a Pod whose list is replaced and whose object is emptied",
    ),
    pytest.param(
        WORKLOAD,
        a_deployment(POD_TEMPLATE_SPEC),
        {
            "metadata": {"labels": {"l": "1"}},
            "spec": {
                "replicas": 3,
                "strategy": {"$retainKeys": ["type"], "type": "Recreate"},
                "template": {"metadata": {"annotations": {"n": "1"}}, "spec": POD_PATCH},
            },
        },
        id="a Deployment",
    ),
]


@pytest.mark.sandbox(area="api")  # kubectl is the toolchain's, which the unit tests do not wait for
@pytest.mark.parametrize(("schema", "live", "patch"), KUBECTL_CASES)
def test_the_result_is_that_of_kubectl(tmp_path, schema, live, patch):
    assert json_of(strategic_merge(live, patch, schema)) == json_of(kubectl(tmp_path, live, patch))


SCALARS = st.one_of(st.none(), st.sampled_from(["", "x", "y"]))
NAMES = st.sampled_from(["a", "b", "c", "d"])


def some(**fields):
    return st.fixed_dictionaries({}, optional=fields)


def keyed(key, values, **fields):
    """A list of objects that a patch matches by `key`, no two with the same."""
    entry = st.fixed_dictionaries({key: values}, optional=fields)
    return st.lists(entry, max_size=3, unique_by=lambda item: item[key])


def pod_specs(scalars):
    """A pod spec; with `None` among its scalars a patch of one, without directives."""
    env = keyed("name", NAMES, value=scalars)
    ports = keyed("containerPort", st.sampled_from([1, 2, 3]), name=scalars)
    mounts = keyed("mountPath", st.sampled_from(["/a", "/b"]), name=NAMES, subPath=scalars)
    security = some(runAsUser=st.just(1), runAsGroup=st.just(2))
    words = st.lists(st.sampled_from(["r", "s"]), max_size=2)
    containers = keyed(
        "name",
        NAMES,
        image=scalars,
        env=env,
        ports=ports,
        volumeMounts=mounts,
        args=words,
        securityContext=security,
    )
    return some(
        containers=containers,
        initContainers=containers,
        hostname=scalars,
        imagePullSecrets=keyed("name", NAMES),
        nodeSelector=st.dictionaries(NAMES, scalars),
        securityContext=security,
        tolerations=st.lists(some(key=NAMES, operator=st.just("Exists")), max_size=2),
        volumes=keyed("name", NAMES, emptyDir=st.just({"medium": "Memory"})),
    )


SPECS = pod_specs(SCALARS.filter(lambda value: value is not None))
PATCHES = pod_specs(SCALARS)


@pytest.mark.sandbox(area="api")
@settings(
    max_examples=30,
    derandomize=True,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(SPECS, PATCHES, st.booleans())
def test_any_result_is_that_of_kubectl(tmp_path, live, patch, deployed):
    schema, made, changes = POD, a_pod(live), {"spec": patch}
    if deployed:
        schema, made, changes = WORKLOAD, a_deployment(live), {"spec": {"template": {"spec": patch}}}
    assert json_of(strategic_merge(made, changes, schema)) == json_of(kubectl(tmp_path, made, changes))


def kubectl(folder, live, patch):
    """What `kubectl patch` makes of it, without a cluster."""
    file = folder / "live.json"
    file.write_text(json.dumps(live))
    command = [
        str(Toolchain(["kubernetes"]).binary("kubectl")),
        "patch",
        "--local",
        "--type",
        "strategic",
        "-o",
        "json",
        "-f",
        str(file),
        "-p",
        json.dumps(patch),
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def json_of(value):
    """As text, less what kubectl prints only because its types always print it."""

    def stripped(item):
        if isinstance(item, dict):
            return {k: stripped(v) for k, v in item.items() if v not in ({}, [], None) and k != "status"}
        return [stripped(entry) for entry in item] if isinstance(item, list) else item

    return json.dumps(stripped(value), indent=1, sort_keys=True)
