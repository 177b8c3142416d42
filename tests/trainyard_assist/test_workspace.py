"""A TrainJob that brings a folder with it: what is sent, and what its pods do with it."""

import base64
import gzip
import io
import os
import subprocess
import tarfile
from dataclasses import replace
from datetime import date
from pathlib import Path

import pytest

from tests.support.objects import runtime, trainjob
from tests.support.program import ROOT
from trainyard_assist import offline, workspace
from trainyard_assist.workspace import Objects, Packed, WorkspaceError
from trainyard_operator.core.admit import validation
from trainyard_operator.core.build import plugins
from trainyard_operator.core.build.info import DEFAULT_SETTINGS
from trainyard_operator.core.decide import revisions
from trainyard_platform.catalog import files as catalog
from trainyard_policies import cluster
from trainyard_policies.settings import DEFAULT

CATALOG = sorted((ROOT / "runtimes").glob("*/*.yaml"))
DIGEST = "0123456789abcdef" * 4
PACKED = Packed(b"packed", DIGEST, "4711" * 10, "feature/eval", dirty=True)
SECRET = "tj-workspace-0123456789-n0nce"
SCRIPT = """\
tar -xzmof /trainyard/packed/workspace.tar.gz -C /trainyard/workspace || { echo 'trainyard: the workspace \
could not be unpacked' >&2; exit 1; }
cd /trainyard/workspace
exec "$@"
"""
MPI = """\
tar -xzmof /trainyard/packed/workspace.tar.gz -C /trainyard/workspace || { echo 'trainyard: the workspace \
could not be unpacked' >&2; exit 1; }
cd /trainyard/workspace
mpirun --map-by ppr:1:node sh -c "tar -xzmof /trainyard/packed/workspace.tar.gz -C /trainyard/workspace" \
|| { echo 'trainyard: the workspace could not be unpacked' >&2; exit 1; }
exec "$@"
"""
VOLUMES = [
    {"name": "trainyard-workspace", "emptyDir": {}},
    {
        "name": "trainyard-packed",
        "secret": {
            "secretName": SECRET,
            "items": [{"key": "workspace.tar.gz", "path": "workspace.tar.gz"}],
        },
    },
]
MOUNTS = [
    {"name": "trainyard-workspace", "mountPath": "/trainyard/workspace"},
    {"name": "trainyard-packed", "mountPath": "/trainyard/packed", "readOnly": True},
]


def live(manifest=None):
    manifest = offline.with_runtime_defaults(manifest or runtime())
    return {**manifest, "metadata": {**manifest["metadata"], "uid": "u"}}


def of_catalog(path: Path):
    return live(catalog.read(path).manifest)


def of_name(name: str):
    return of_catalog(next(path for path in CATALOG if path.stem == name))


def sent(manifest, its_runtime, packed=PACKED) -> Objects:
    name = its_runtime["metadata"]["name"]
    reference = {"name": name, "kind": "ClusterTrainingRuntime"}
    manifest = {**manifest, "spec": {**manifest["spec"], "runtimeRef": reference}}
    return workspace.with_workspace(manifest, packed, its_runtime, "n0nce")


def job(**trainer):
    return trainjob(trainer={"command": ["python", "train.py"], **trainer})


def replicated_jobs(objects: Objects, its_runtime):
    core = offline.trainjob_of(objects.trainjob, "team")
    children = plugins.ALL.build(core, revisions.live(its_runtime), DEFAULT_SETTINGS)
    [jobset] = [child for child in children if child["kind"] == "JobSet"]
    return {
        job["name"]: job["template"]["spec"]["template"]["spec"] for job in jobset["spec"]["replicatedJobs"]
    }


def container(pod):
    return next(container for container in pod["containers"] if container["name"] == "node")


def with_folder(objects: Objects, its_runtime) -> set[str]:
    """The ReplicatedJobs whose pods have all of it, of those that have any of it."""
    jobs = set()
    for name, pod in replicated_jobs(objects, its_runtime).items():
        volumes = [volume for volume in pod.get("volumes", ()) if volume in VOLUMES]
        mounts = (
            [mount for mount in container(pod).get("volumeMounts", ()) if mount in MOUNTS]
            if any(container["name"] == "node" for container in pod["containers"])
            else []
        )
        assert (len(volumes), len(mounts)) in {(0, 0), (2, 2)}
        jobs |= {name} if volumes else set()
    return jobs


def test_what_is_sent_is_a_plain_trainjob_and_an_immutable_secret() -> None:
    plain = job(numNodes=2)
    plain["metadata"]["annotations"] = {"mine": "1"}
    patched = [
        {
            "name": "node",
            "template": {
                "spec": {
                    "template": {
                        "spec": {
                            "volumes": VOLUMES,
                            "containers": [{"name": "node", "volumeMounts": MOUNTS}],
                        }
                    }
                }
            },
        }
    ]
    assert sent(plain, live()) == Objects(
        {
            "apiVersion": "trainer.kubeflow.org/v1alpha1",
            "kind": "TrainJob",
            "metadata": {
                "name": "tj",
                "namespace": "team",
                "annotations": {
                    "mine": "1",
                    "trainyard.dev/workspace": f"sha256:{DIGEST}",
                    "trainyard.dev/git-commit": "4711" * 10,
                    "trainyard.dev/git-branch": "feature/eval",
                    "trainyard.dev/git-dirty": "true",
                },
            },
            "spec": {
                "runtimeRef": {"name": "rt", "kind": "ClusterTrainingRuntime"},
                "trainer": {
                    "command": ["sh", "-c", SCRIPT, "trainyard", "python", "train.py"],
                    "numNodes": 2,
                },
                "runtimePatches": [
                    {
                        "manager": "trainyard.dev/workspace",
                        "trainingRuntimeSpec": {"template": {"spec": {"replicatedJobs": patched}}},
                    }
                ],
            },
        },
        {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {
                "name": SECRET,
                "namespace": "team",
                "annotations": {"trainyard.dev/workspace": f"sha256:{DIGEST}"},
            },
            "type": "trainyard.dev/workspace",
            "immutable": True,
            "data": {"workspace.tar.gz": base64.b64encode(b"packed").decode()},
        },
    )


def test_the_secret_is_deleted_with_the_trainjob_that_the_api_server_has_stored() -> None:
    secret = {"kind": "Secret", "metadata": {"name": "s"}}
    stored = {"metadata": {"name": "tj", "uid": "u"}}
    owner = {"apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "TrainJob", "name": "tj", "uid": "u"}
    assert workspace.owned(secret, stored) == {
        "kind": "Secret",
        "metadata": {"name": "s", "ownerReferences": [owner]},
    }


def test_outside_of_git_nothing_is_said_of_a_commit() -> None:
    annotations = sent(job(), live(), Packed(b"", DIGEST)).trainjob["metadata"]["annotations"]
    assert annotations == {"trainyard.dev/workspace": f"sha256:{DIGEST}"}


@pytest.mark.parametrize("path", CATALOG, ids=lambda path: path.stem)
def test_on_each_runtime_of_the_catalog_all_pods_that_train_have_the_folder(path: Path) -> None:
    its_runtime = of_catalog(path)
    objects = sent(job(numNodes=1), its_runtime)
    trains = {
        name
        for name, pod in replicated_jobs(objects, its_runtime).items()
        if any(container["name"] == "node" for container in pod["containers"])
    }
    assert with_folder(objects, its_runtime) == trains != set()
    core = offline.trainjob_of(objects.trainjob, "team")
    assert validation.validate(core, None, revisions.live(its_runtime)).errors == ()
    assert cluster.answer(objects.trainjob, None, "ada", date(2026, 11, 21), DEFAULT).refusals == ()


@pytest.mark.parametrize(
    ("name", "jobs"),
    [
        ("torch-distributed", {"node"}),
        ("tensorflow-ps", {"chief", "ps", "node"}),
        ("mpi-distributed", {"launcher", "node"}),
        ("trl-sft", {"node"}),
    ],
)
def test_who_has_the_folder(name: str, jobs: set[str]) -> None:
    assert with_folder(sent(job(), of_name(name)), of_name(name)) == jobs


@pytest.mark.parametrize(
    ("name", "commands"),
    [
        ("torch-distributed", {"node": ["sh", "-c", SCRIPT, "trainyard", "python", "train.py"]}),
        (
            "mpi-distributed",
            {
                "launcher": ["sh", "-c", MPI, "trainyard", "python", "train.py"],
                "node": [
                    *("/usr/sbin/sshd", "-De", "-f", "/home/mpiuser/.sshd_config"),
                    *("-o", "SetEnv=PYTHONUNBUFFERED=1"),
                ],
            },
        ),
    ],
)
def test_what_the_pods_run(name: str, commands: dict[str, list[str]]) -> None:
    pods = replicated_jobs(sent(job(), of_name(name)), of_name(name))
    assert {name: container(pod)["command"] for name, pod in pods.items()} == commands


def test_a_trainjob_without_a_command_runs_that_of_its_runtime_in_the_folder() -> None:
    plain = trainjob(trainer={"args": ["--config", "mine.yaml"]})
    pod = replicated_jobs(sent(plain, of_name("trl-sft")), of_name("trl-sft"))["node"]
    assert (container(pod)["command"], container(pod)["args"]) == (
        ["sh", "-c", SCRIPT, "trainyard", "python", "-m", "trainyard_trainers", "sft"],
        ["--config", "mine.yaml"],
    )


def without_container():
    manifest = runtime()
    job = manifest["spec"]["template"]["spec"]["replicatedJobs"][0]
    job["template"]["spec"]["template"]["spec"]["containers"][0]["name"] = "main"
    return live(manifest)


@pytest.mark.parametrize(
    ("manifest", "its_runtime", "packed", "sentence"),
    [
        pytest.param(
            trainjob(),
            live(),
            PACKED,
            "neither the TrainJob nor runtime rt names a command, and what the image starts by itself is not "
            "known here: give a command",
            id="nobody names a command",
        ),
        pytest.param(
            job(command=[]),
            of_name("trl-sft"),
            PACKED,
            "the TrainJob's command is empty, so the image's own starts, which is not known here: give a "
            "command",
            id="a command that takes the runtime's away",
        ),
        pytest.param(
            job(command=["tune", "run"]),
            live(),
            PACKED,
            "the platform completes the command `tune run` by itself, so a workspace cannot travel with it: "
            "name another command, or a runtime such as trl-sft",
            id="a command that the platform writes",
        ),
        pytest.param(
            job(),
            without_container(),
            PACKED,
            "spec.template.spec.replicatedJobs[0].template.spec.template.spec.containers: Required value: "
            "must have the container node, because the TrainJob sets spec.trainer",
            id="a runtime in which nobody trains",
        ),
        pytest.param(
            job(),
            live(),
            Packed(b"x" * (700 * 1024 + 1), DIGEST),
            "the packed workspace has 716801 bytes, but may have 716800",
            id="too large",
        ),
        pytest.param(
            job(command="python train.py"),
            live(),
            PACKED,
            'spec.trainer.command: Invalid value: "python train.py": must be a list of strings',
            id="an invalid TrainJob",
        ),
    ],
)
def test_what_cannot_be_sent_is_told_why(manifest, its_runtime, packed, sentence: str) -> None:
    with pytest.raises(WorkspaceError) as refused:
        sent(manifest, its_runtime, packed)
    assert str(refused.value) == sentence


def test_a_trainjob_is_sent_again_with_its_folder_or_without() -> None:
    plain = job(numNodes=2)
    plain["spec"]["runtimePatches"] = [{"manager": "example.com/mine"}]
    first = sent(plain, live())
    assert workspace.secret_of(plain) is None
    assert workspace.secret_of(first.trainjob) == SECRET
    assert workspace.without_workspace(first.trainjob) == plain
    assert sent(first.trainjob, live()) == first
    assert workspace.packed_in(first.secret, first.trainjob) == PACKED


@pytest.mark.parametrize("data", [None, {}, {"workspace.tar.gz": "no base64!"}, {"workspace.tar.gz": 1}])
def test_a_secret_without_a_folder_is_told(data) -> None:
    secret = {"metadata": {"name": "s"}, "data": data}
    with pytest.raises(
        WorkspaceError, match="Secret s holds no workspace: send the TrainJob with its folder"
    ):
        workspace.packed_in(secret, {"metadata": {}})


def test_requirements_go_with_the_folder_and_come_back_with_it() -> None:
    packed = replace(PACKED, requirements="requirements.txt")
    first = sent(job(), live(), packed)
    command = first.trainjob["spec"]["trainer"]["command"]
    assert command[:4] == ["sh", "-c", SCRIPT, "trainyard"]
    assert [*command[4:6], *command[7:]] == [
        "sh",
        "-c",
        "trainyard",
        "requirements.txt",
        "python",
        "train.py",
    ]
    assert workspace.without_workspace(first.trainjob) == job()
    assert workspace.packed_in(first.secret, first.trainjob) == packed
    assert sent(first.trainjob, live(), packed) == first
    with pytest.raises(WorkspaceError, match="requirements are not installed on the nodes of an MPI job"):
        sent(job(), of_name("mpi-distributed"), packed)


def test_a_folder_on_a_volume_is_mounted_from_there_and_is_no_secret() -> None:
    packed = Packed(b"x" * (700 * 1024 + 1), DIGEST, claim="results")
    first = sent(job(), live(), packed)
    pod = first.trainjob["spec"]["runtimePatches"][0]["trainingRuntimeSpec"]["template"]["spec"][
        "replicatedJobs"
    ][0]
    pod = pod["template"]["spec"]["template"]["spec"]
    assert pod["volumes"][1] == {
        "name": "trainyard-packed",
        "persistentVolumeClaim": {"claimName": "results"},
    }
    assert container(pod)["volumeMounts"][1] == {
        "name": "trainyard-packed",
        "mountPath": "/trainyard/packed",
        "subPath": f"trainyard-workspaces/{DIGEST}",
        "readOnly": True,
    }
    assert (first.secret, workspace.secret_of(first.trainjob)) == ({}, None)
    assert workspace.on_volume(first.trainjob) == replace(packed, archive=b"")
    assert workspace.on_volume(sent(job(), live()).trainjob) is None
    assert workspace.without_workspace(first.trainjob) == job()


def test_a_carrier_is_one_small_node_of_the_same_runtime_with_the_claim() -> None:
    its_runtime = of_name("torch-distributed")
    plain = trainjob(trainer={"command": ["python", "train.py"], "numNodes": 4, "image": "mine:1"})
    plain["metadata"]["labels"] = {"kueue.x-k8s.io/queue-name": "q", "trainyard.dev/folder": "f"}
    plain["spec"]["runtimeRef"] = {"name": "torch-distributed", "kind": "ClusterTrainingRuntime"}
    carrier = workspace.carrier(plain, its_runtime, "results", ("sh", "-c", "sleep 1"))
    small = {"cpu": "500m", "memory": "256Mi"}
    assert carrier["metadata"] == {
        "name": "tj-folder",
        "namespace": "team",
        "labels": {"kueue.x-k8s.io/queue-name": "q"},
    }
    assert carrier["spec"]["trainer"] == {
        "image": "mine:1",
        "numNodes": 1,
        "command": ["sh", "-c", "sleep 1"],
        "resourcesPerNode": {"requests": small, "limits": small},
    }
    pod = replicated_jobs(Objects(carrier, {}), its_runtime)["node"]
    claims = [volume for volume in pod["volumes"] if "persistentVolumeClaim" in volume]
    assert claims == [{"name": "trainyard-packed", "persistentVolumeClaim": {"claimName": "results"}}]
    mount = {"name": "trainyard-packed", "mountPath": "/trainyard/packed"}
    assert mount in container(pod)["volumeMounts"]
    core = offline.trainjob_of(carrier, "team")
    assert validation.validate(core, None, revisions.live(its_runtime)).errors == ()
    assert cluster.answer(carrier, None, "ada", date(2026, 11, 21), DEFAULT).refusals == ()


@pytest.mark.parametrize(
    ("name", "carrier"),
    [
        ("a" * 26, "a" * 26 + "-folder"),
        ("a" * 27, "aaaaaaaaaaaaaaaaaaa-cc0616-folder"),
        ("a" * 44 + "-seed-1", "aaaaaaaaaaaaaaaaaaa-4a183f-folder"),
        ("a" * 44 + "-seed-2", "aaaaaaaaaaaaaaaaaaa-4e316f-folder"),
    ],
)
def test_the_name_of_a_carrier_fits_where_that_of_its_trainjob_does(name: str, carrier: str) -> None:
    plain = job()
    plain["metadata"]["name"] = name
    assert workspace.carrier(plain, live(), "results", ("sh", "-c", "sleep 1"))["metadata"]["name"] == carrier


# --- what the pods do -----------------------------------------------------------


def archive(**files: str) -> bytes:
    target = io.BytesIO()
    with tarfile.open(fileobj=target, mode="w") as tar:
        for name, text in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(text)
            tar.addfile(member, io.BytesIO(text.encode()))
    return gzip.compress(target.getvalue())


class Pod:
    """The container's command on this machine, with folders of its own in place of the volumes."""

    def __init__(self, folder: Path, its_runtime, *command: str, packed: Packed = PACKED) -> None:
        self.root = folder / "trainyard"
        for name in ("packed", "workspace", "bin"):
            (self.root / name).mkdir(parents=True)
        words = sent(job(command=list(command)), its_runtime, packed).trainjob["spec"]["trainer"]["command"]
        self.command = [word.replace("/trainyard/", f"{self.root}/") for word in words]

    def bring(self, packed: bytes) -> None:
        (self.root / "packed" / "workspace.tar.gz").write_bytes(packed)

    def run(self) -> subprocess.CompletedProcess[str]:
        environment = {**os.environ, "PATH": f"{self.root}/bin:{os.environ['PATH']}", "LC_ALL": "C"}
        return subprocess.run(self.command, capture_output=True, text=True, check=False, env=environment)


def test_the_command_runs_in_the_folder_with_its_arguments_and_its_exit_code(tmp_path: Path) -> None:
    pod = Pod(
        tmp_path, live(), "sh", "-c", 'cat hello; pwd; echo "$1"; echo rest > rest; exit 7', "sh", "a b; $(c)"
    )
    pod.bring(archive(hello="Hello\n"))
    expected = f"Hello\n{pod.root}/workspace\na b; $(c)\n"
    for _ in range(2):  # a container that restarts finds what it has written
        answer = pod.run()
        assert (answer.returncode, answer.stdout, answer.stderr) == (7, expected, "")
    assert (pod.root / "workspace" / "rest").read_text() == "rest\n"


def test_a_folder_that_cannot_be_unpacked_ends_the_pod_with_a_sentence(tmp_path: Path) -> None:
    pod = Pod(tmp_path, live(), "echo", "begun")
    pod.bring(b"no archive")
    answer = pod.run()
    assert (answer.returncode, answer.stdout) == (1, "")
    assert answer.stderr.splitlines()[-1] == "trainyard: the workspace could not be unpacked"


def test_an_unknown_command_ends_with_the_exit_code_that_runtimes_know(tmp_path: Path) -> None:
    pod = Pod(tmp_path, live(), "no-such-command")
    pod.bring(archive(hello="Hello\n"))
    answer = pod.run()
    assert answer.returncode == 127
    assert answer.stderr.startswith("trainyard: ")


def test_an_mpi_launcher_unpacks_on_each_node_before_its_command(tmp_path: Path) -> None:
    pod = Pod(tmp_path, of_name("mpi-distributed"), "mpirun", "cat", "hello")
    pod.bring(archive(hello="Hello\n"))
    mpirun = pod.root / "bin" / "mpirun"
    mpirun.write_text(
        '#!/bin/sh\nprintf "%s\\n" "mpirun in $(pwd)" >&2\n[ "$1" != --map-by ] || shift 2\nexec "$@"\n'
    )
    mpirun.chmod(0o755)
    answer = pod.run()
    here = f"mpirun in {pod.root}/workspace\n"
    assert (answer.returncode, answer.stdout, answer.stderr) == (0, "Hello\n", here * 2)
    mpirun.write_text("#!/bin/sh\nexit 1\n")
    answer = pod.run()
    assert (answer.returncode, answer.stdout) == (1, "")
    assert answer.stderr == "trainyard: the workspace could not be unpacked\n"


PIP = """#!/bin/sh
[ -z "$PYTHONPATH" ] || echo "with a path" >&2
echo "pip: $PIP_BREAK_SYSTEM_PACKAGES $*"
while [ "$1" != --log ]; do shift; done
cat "$4" > "$2"
[ ! -s "$4" ]
"""
"""Stands for Python with pip: it fails unless the requirements are empty, which it notes in its log."""


@pytest.mark.parametrize(
    ("requirements", "code", "sentence"),
    [
        ("", 0, ""),
        (
            "Retrying (Retry(total=4)) after connection broken by 'NewConnectionError'",
            1,
            "trainyard: the requirements of more.txt are not installed: this pod does not reach the package "
            "index of its pip configuration; name one that it reaches, as in --env "
            "PIP_INDEX_URL=https://..., or use an image that has them\n",
        ),
        (
            "No matching distribution found for x",
            42,
            "trainyard: the requirements of more.txt are not installed: pip says above why not\n",
        ),
    ],
)
def test_the_command_starts_once_its_requirements_are_installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, requirements: str, code: int, sentence: str
) -> None:
    monkeypatch.setenv("PYTHONPATH", "/trainyard/last-words")
    packed = replace(PACKED, requirements="more.txt")
    pod = Pod(
        tmp_path, live(), "sh", "-c", 'echo "begun with $PYTHONPATH $1"; ls -A', "sh", "x", packed=packed
    )
    pod.bring(archive(**{"more.txt": requirements}))
    (pod.root / "bin" / "python3").write_text(PIP)
    (pod.root / "bin" / "python3").chmod(0o755)
    answer = pod.run()
    installs = (
        "pip: 1 -m pip install --no-input --disable-pip-version-check --no-cache-dir "
        f"--log {pod.root}/workspace/.trainyard-pip.log -r more.txt\n"
    )
    begun = "" if code else "begun with /trainyard/last-words x\nmore.txt\n"
    assert (answer.returncode, answer.stdout, answer.stderr) == (code, installs + begun, sentence)
