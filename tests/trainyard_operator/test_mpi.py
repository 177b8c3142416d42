"""What MPI makes of a TrainJob beyond the golden corpus: counts, slots, hosts, and what it refuses."""

import pytest

from tests.support.core_values import containers, replicated_job, runtime, trainjob
from trainyard_api import names
from trainyard_api.errors import InvalidFieldError
from trainyard_operator.core.admit.validation import validate
from trainyard_operator.core.build import plugins
from trainyard_operator.core.build.info import DEFAULT_SETTINGS, Child, new_info
from trainyard_operator.core.build.plugins.mpi import MPI
from trainyard_operator.core.model import Generated

OWNER = {
    "apiVersion": "trainer.kubeflow.org/v1alpha1",
    "kind": "TrainJob",
    "name": "tj",
    "uid": "job-uid",
    "controller": True,
    "blockOwnerDeletion": True,
}


def mpi_runtime(workers=None, launcher=None, **policy):
    jobs = [
        replicated_job("node", None, [workers or {"name": "node", "image": "i"}]),
        replicated_job("launcher", "trainer", [launcher or {"name": "node", "image": "i"}]),
    ]
    return runtime({"mpi": {"numProcPerNode": 1, "runLauncherAsNode": True, **policy}}, jobs)


def hosts(spec, rt):
    (hostfile,) = (
        m for m in plugins.ALL.build(trainjob(spec), rt, DEFAULT_SETTINGS) if m["kind"] == "ConfigMap"
    )
    return hostfile["data"]["hostfile"].splitlines()


def test_it_does_nothing_for_another_policy():
    info = new_info(trainjob({"trainer": {"numNodes": 4}}), runtime({"torch": {}}), DEFAULT_SETTINGS)
    assert (MPI().enforce_ml_policy(info), MPI().build(info)) == (info, ())


def test_the_key_is_drawn_by_whoever_creates_the_secret():
    (secret,) = (
        child
        for child in plugins.ALL.children(trainjob(), mpi_runtime(), DEFAULT_SETTINGS)
        if child.manifest["kind"] == "Secret"
    )
    assert secret == Child(
        {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": "tj-mpi-ssh-auth", "namespace": "team", "ownerReferences": [OWNER]},
            "type": "kubernetes.io/ssh-auth",
            "immutable": True,
            "data": {"ssh-privatekey": "(generated)", "ssh-publickey": "(generated)"},
        },
        Generated.SSH_KEY,
    )


@pytest.mark.parametrize(
    ("nodes", "policy", "names"),
    [
        pytest.param(1, {}, ["node-0-0", "launcher-0-0"], id="always a worker beside the launcher"),
        pytest.param(3, {}, ["node-0-0", "node-0-1", "launcher-0-0"], id="the launcher is one of the nodes"),
        pytest.param(
            2, {"runLauncherAsNode": False}, ["node-0-0", "node-0-1"], id="a launcher that does not train"
        ),
        pytest.param(0, {"runLauncherAsNode": False}, [], id="no nodes"),
    ],
)
def test_the_hosts_are(nodes, policy, names):
    found = hosts({"trainer": {"numNodes": nodes}}, mpi_runtime(**policy))
    assert found == [f"tj-{name}.tj slots=1" for name in names]


GPUS = {"name": "node", "image": "i", "resources": {"limits": {"nvidia.com/gpu": 4}}}


@pytest.mark.parametrize(
    ("trainer", "rt", "slots"),
    [
        pytest.param({"numProcPerNode": 3}, mpi_runtime(GPUS), 3, id="what the TrainJob says"),
        pytest.param({}, mpi_runtime(numProcPerNode=2), 2, id="what the runtime says"),
        pytest.param({}, mpi_runtime(GPUS), 4, id="one for each GPU if the runtime says one"),
        pytest.param({}, mpi_runtime(GPUS, numProcPerNode=2), 2, id="the runtime before its GPUs"),
        pytest.param({}, mpi_runtime(GPUS, numProcPerNode=None), 4, id="one for each GPU if it says nothing"),
        pytest.param({}, mpi_runtime(numProcPerNode=None), 1, id="one if nobody says anything"),
        pytest.param(
            {"resourcesPerNode": {"limits": {"cpu": 2}}},
            mpi_runtime(GPUS),
            4,
            id="one for each GPU of the runtime if the TrainJob names other resources",
        ),
    ],
)
def test_the_slots_of_a_host_are(trainer, rt, slots):
    assert hosts({"trainer": trainer}, rt)[0] == f"tj-node-0-0.tj slots={slots}"
    env = {
        e["name"]: e["value"]
        for e in containers(trainjob({"trainer": trainer}), rt, "launcher")["node"]["env"]
    }
    assert env["OMPI_MCA_orte_set_default_slots"] == str(slots)


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        pytest.param({}, {"launcher": ["E"], "node": ["E"]}, id="launcher and workers"),
        pytest.param({"runLauncherAsNode": False}, {"launcher": ["E"], "node": []}, id="the launcher alone"),
    ],
)
def test_the_trainjobs_variables_go_to(policy, expected):
    job = trainjob({"trainer": {"env": [{"name": "E", "value": "v"}]}})
    assert {
        name: [
            e["name"]
            for e in containers(job, mpi_runtime(**policy), name)["node"].get("env", [])
            if e["name"] == "E"
        ]
        for name in ("launcher", "node")
    } == expected


@pytest.mark.parametrize(
    ("policy", "folder"), [({}, "/root/.ssh"), ({"sshAuthMountPath": "/home/mpi/.ssh"}, "/home/mpi/.ssh")]
)
def test_the_key_is_mounted_where_the_runtime_says_or_at_home(policy: dict[str, str], folder: str) -> None:
    rt = mpi_runtime(**policy)
    key = {"name": "mpi-ssh-auth", "mountPath": folder}
    worker, launcher = (containers(trainjob(), rt, name)["node"] for name in ("node", "launcher"))
    assert worker["volumeMounts"] == [key]
    assert launcher["volumeMounts"] == [key, {"name": "mpi-hostfile", "mountPath": "/etc/mpi"}]


NEEDS_BOTH = (
    "spec.trainer.numNodes: Invalid value: 2: must have 1 when MPI trainingRuntime with enabled "
    "runLauncherAsNode does not have either launcher and node"
)


@pytest.mark.parametrize(
    ("jobs", "policy", "trainer", "errors"),
    [
        pytest.param(["node", "launcher"], {}, {"numNodes": 2}, [], id="with launcher and workers"),
        pytest.param(["node", "launcher", "store"], {}, {"numNodes": 2}, [], id="and with others"),
        pytest.param(["launcher"], {}, {"numNodes": 2}, [NEEDS_BOTH], id="not without workers"),
        pytest.param(["node"], {}, {"numNodes": 2}, [NEEDS_BOTH], id="not without a launcher"),
        pytest.param(["node"], {}, {"numNodes": 1}, [], id="one node"),
        pytest.param(["node"], {}, {}, [], id="as many as the runtime says"),
        pytest.param(["node"], {}, None, [], id="as many as the runtime says without a trainer"),
        pytest.param(
            ["node"], {"runLauncherAsNode": False}, {"numNodes": 2}, [], id="a launcher that does not train"
        ),
    ],
)
def test_several_nodes_are_allowed(
    jobs: list[str], policy: dict[str, bool], trainer: dict[str, int] | None, errors: list[str]
) -> None:
    mpi = {"mpi": {"runLauncherAsNode": True, **policy}}
    rt = runtime(mpi, [replicated_job(name) for name in jobs])
    job = trainjob({} if trainer is None else {"trainer": trainer})
    assert [str(error) for error in validate(job, None, rt).errors] == errors


def test_another_implementation_is_refused():
    with pytest.raises(
        InvalidFieldError, match=r'mpiImplementation: Invalid value: "Intel": must be OpenMPI'
    ):
        plugins.ALL.build(trainjob(), mpi_runtime(mpiImplementation="Intel"), DEFAULT_SETTINGS)


def test_more_hosts_than_a_configmap_holds_are_refused_before_any_is_written():
    with pytest.raises(InvalidFieldError) as raised:
        hosts({"trainer": {"numNodes": 2**31 - 1}}, mpi_runtime())
    assert str(raised.value) == (
        "spec.trainer.numNodes: Invalid value: 2147483647: must be less than or equal to 31250, "
        "since the list of hosts is kept in a ConfigMap, which holds 1 MiB"
    )


def images(image, workers, launcher):
    """Of the pods, by ReplicatedJob, if the runtime's are these and the TrainJob asks for `image`."""
    rt = mpi_runtime({"name": "node", "image": workers}, {"name": "node", "image": launcher})
    job = trainjob({"trainer": {"image": image}} if image else {})
    warnings = validate(job, None, rt).warnings
    return [containers(job, rt, name)["node"]["image"] for name in ("launcher", "node")], warnings


def test_the_trainjobs_image_reaches_launcher_and_nodes_where_the_runtime_has_one_for_both():
    assert images("mine", "i", "i") == (["mine", "mine"], ())
    assert images(None, "i", "j") == (["j", "i"], ())


def test_it_reaches_the_trainers_step_alone_where_they_differ_and_the_user_is_told():
    said = (
        "spec.trainer.image: applies only to pods of launcher: node keeps i, since the runtime has "
        "different images for them"
    )
    assert images("mine", "i", "j") == (["mine", "i"], (said,))


@pytest.mark.parametrize(
    ("nodes", "policy", "warned"),
    [(1, {}, True), (2, {}, False), (None, {}, False), (1, {"runLauncherAsNode": False}, False)],
)
def test_whoever_wants_one_node_is_told_of_the_two_pods(nodes, policy, warned):
    job = trainjob({} if nodes is None else {"trainer": {"numNodes": nodes}})
    said = (
        "spec.trainer.numNodes: 1 makes two pods, the launcher and one more node, each with the resources of "
        "a node, as 2 does: a runtime with mlPolicy.mpi always has both"
    )
    assert validate(job, None, mpi_runtime(**policy)).warnings == ((said,) if warned else ())


@pytest.mark.parametrize(
    ("words", "variables", "missing"),
    [
        (["mpirun", "solve"], ["STEPS", "HF_TOKEN"], "STEPS, HF_TOKEN"),
        (["mpirun", "-x", "STEPS", "-x", "HF_TOKEN=a", "solve"], ["STEPS", "HF_TOKEN"], ""),
        (["sh", "-c", "exec /usr/bin/mpirun -x 'STEPS' solve"], ["STEPS"], ""),
        (["sh", "-c", "exec /usr/bin/mpirun -x STEPS_A solve"], ["STEPS"], "STEPS"),
        (["mpirun", "solve"], list("ABCDE"), "A, B, C, D and others"),
        (["mpirun", "solve"], ["OMPI_MCA_btl"], ""),
        (["deepspeed", "train.py"], ["STEPS"], ""),
        (["mpirun", "solve"], [], ""),
    ],
)
def test_whoever_sets_variables_that_mpirun_does_not_pass_on_is_told(words, variables, missing):
    env = [{"name": name, "value": "1"} for name in variables]
    said = (
        f"spec.trainer.env: ranks on other nodes do not get {missing}: mpirun passes on only what its "
        f"command names, as with -x {variables[0] if variables else ''}"
    )
    for trainer in ({"command": words}, {"command": words[:1], "args": words[1:]}):
        warnings = validate(trainjob({"trainer": {**trainer, "env": env}}), None, mpi_runtime()).warnings
        assert warnings == ((said,) if missing else ())


def test_who_only_changes_a_trainjob_is_not_told_again():
    rt = mpi_runtime({"name": "node", "image": "i"}, {"name": "node", "image": "j"})
    old = trainjob({"trainer": {"image": "mine"}})
    new = trainjob({"trainer": {"image": "mine"}, "suspend": True, "activeDeadlineSeconds": 5})
    assert validate(new, old, rt).warnings == ()


def test_open_mpi_5_is_told_the_same_as_open_mpi_4_but_for_whole_names():
    """It reads other variables, and with whole names does not recognize the launcher in the list."""
    env = containers(trainjob({"trainer": {"numProcPerNode": 3}}), mpi_runtime(), "launcher")["node"]["env"]
    assert {e["name"]: e["value"] for e in env} == {
        "OMPI_MCA_orte_default_hostfile": "/etc/mpi/hostfile",
        "OMPI_MCA_orte_keep_fqdn_hostnames": "true",
        "OMPI_MCA_orte_set_default_slots": "3",
        "OMPI_MCA_plm_rsh_args": "-o ConnectionAttempts=10",
        "PRTE_MCA_prte_default_hostfile": "/etc/mpi/hostfile",
        "PRTE_MCA_prte_keep_fqdn_hostnames": "false",
        "PRTE_MCA_prte_set_default_slots": "3",
        "PRTE_MCA_plm_ssh_args": "-o ConnectionAttempts=10",
    }


def test_who_sets_what_the_operator_sets_for_open_mpi_5_is_warned():
    suffixes = ("prte_default_hostfile", "hwloc_default_binding_policy", "plm_ssh_args")
    env = [{"name": f"PRTE_MCA_{suffix}", "value": "mine"} for suffix in suffixes]
    trainer = {"env": env, "command": ["mpirun", "-x", "PRTE_MCA_hwloc_default_binding_policy", "train"]}
    answer = validate(trainjob({"trainer": trainer}), None, mpi_runtime())
    assert (answer.errors, answer.warnings) == (
        (),
        (
            "spec.trainer.env: PRTE_MCA_plm_ssh_args, PRTE_MCA_prte_default_hostfile: the job's own value "
            "replaces that of the operator, so Open MPI 5 may not start the ranks on all nodes: leave it out",
        ),
    )


def test_the_variables_that_a_runtime_should_not_set_are_those_of_the_launcher():
    env = containers(trainjob(), mpi_runtime(), "launcher")["node"]["env"]
    assert {variable["name"] for variable in env} == names.RESERVED_ENV["mpi"]
