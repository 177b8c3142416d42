"""`trainyard migrate` as it is called: files or the standard input in, YAML or JSON and an exit code out."""

import io
import json
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from tests.support.answers import answered
from trainyard_cli.commands.migrate import Output, command, run
from trainyard_cli.main import app as trainyard

JOB = """
apiVersion: kubeflow.org/v1
kind: JAXJob
metadata: {name: %s}
spec:
  runPolicy: {cleanPodPolicy: %s}
  jaxReplicaSpecs:
    Worker:
      restartPolicy: OnFailure
      template: {spec: {containers: [{name: jax, image: i, command: [c]}]}}
"""
CATALOG = Path(__file__).parents[1] / "trainyard_assist" / "migrate" / "catalog"
TRAINJOB = {
    "apiVersion": "trainer.kubeflow.org/v1alpha1",
    "kind": "TrainJob",
    "metadata": {"name": "a"},
    "spec": {
        "runtimeRef": {"name": "jax-distributed"},
        "trainer": {
            "command": ["c"],
            "env": [
                {"name": "PYTHONUNBUFFERED", "value": "1"},
                {"name": "COORDINATOR_ADDRESS", "value": "a-node-0-0.a"},
                {"name": "COORDINATOR_PORT", "value": "6666"},
                {"name": "NUM_PROCESSES", "value": "1"},
                {
                    "name": "PROCESS_ID",
                    "valueFrom": {
                        "fieldRef": {
                            "fieldPath": "metadata.annotations['batch.kubernetes.io/job-completion-index']"
                        }
                    },
                },
            ],
            "image": "i",
            "numNodes": 1,
        },
    },
}


@pytest.fixture
def call(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def call(*files, stdin="", **options):
        paths = [Path(file) for file in files]
        return answered(run, paths, catalog=CATALOG, stdin=io.StringIO(stdin), **options)

    return call


def test_json_holds_the_objects_and_the_notes_with_their_places(call):
    code, text, said = call("-", stdin=JOB % ("a", "All"), output=Output.JSON)
    message = (
        "JobSet keeps the pods that have ended; "
        "spec.template.spec.ttlSecondsAfterFinished of a runtime removes them"
    )
    note = {"level": "lost", "file": "stdin", "line": 6, "field": "spec.runPolicy.cleanPodPolicy"}
    assert json.loads(text) == {"objects": [TRAINJOB], "notes": [{**note, "message": message}]}
    assert (code, said) == (1, "")


def test_a_runtime_that_data_scientists_may_not_create_is_said_to_be_one(call):
    case = (CATALOG.parent / "cases" / "jaxjob-gang.yaml").read_text()
    _, text, said = call("-", stdin=case)
    assert "kind: TrainingRuntime\n" in text
    assert said.endswith(
        "Data scientists may not create TrainingRuntimes: jax-gang.\n"
        "Have the platform team create them, or add them to the catalog.\n"
    )


def test_a_folder_gets_a_file_for_each_file(call):
    Path("one.yaml").write_text(JOB % ("a", "Running"))
    Path("two.yaml").write_text(f"{JOB % ('b', 'None')}---\nkind: ConfigMap\n")
    code, text, said = call("one.yaml", "two.yaml", output_dir=Path("new/folder"))
    lost = (
        "spec.runPolicy.cleanPodPolicy: JobSet stops the pods that still run when a job is done; those that"
    )
    note = f"two.yaml:6: lost: {lost} ended stay\n"
    assert (code, text, said) == (1, "", note)
    assert sorted(path.name for path in Path("new/folder").iterdir()) == ["one.yaml", "two.yaml"]
    two = Path("new/folder/two.yaml").read_text()
    assert two.startswith(f"# {note}apiVersion: trainer.kubeflow.org/v1alpha1\nkind: TrainJob\n")
    assert two.endswith("---\nkind: ConfigMap\n")


def test_nothing_is_overwritten(call):
    Path("one.yaml").write_text(JOB % ("a", "Running"))
    before = Path("one.yaml").read_text()
    assert call("one.yaml", output_dir=Path()) == (2, "", "one.yaml: exists, and is not overwritten\n")
    assert Path("one.yaml").read_text() == before


def test_a_file_that_is_not_whole_has_no_name_of_its_own(call, monkeypatch):
    def killed(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(Path, "replace", killed)
    with pytest.raises(KeyboardInterrupt):
        call("-", stdin=JOB % ("a", "Running"), output_dir=Path("out"))
    assert not Path("out/stdin.yaml").exists()


def test_files_of_one_name_are_not_written_over_each_other(call):
    for folder in ("x", "y"):
        Path(folder).mkdir()
        Path(folder, "a.yaml").write_text(JOB % (folder, "Running"))
    said = "y/a.yaml: would be written to out/a.yaml, like x/a.yaml\n"
    assert call("x/a.yaml", "y/a.yaml", output_dir=Path("out")) == (2, "", said)
    assert not Path("out").exists()


def test_a_folder_that_cannot_be_made_is_named(call):
    Path("file").write_text("")
    code, text, said = call("-", stdin=JOB % ("a", "Running"), output_dir=Path("file/below"))
    assert (code, text) == (2, "")
    assert said in ("file/below: Not a directory\n", "file: Not a directory\n")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param(None, "f.yaml:1: No such file or directory\n", id="no file"),
        pytest.param(b"\xff", "f.yaml:1: not UTF-8\n", id="no text"),
        pytest.param(b"a: [1", "f.yaml:1:4: a list begins here, and no ']' closes it\n", id="no YAML"),
        pytest.param(b"\n- a", "f.yaml:2:1: a document must be an object\n", id="no object"),
        pytest.param(
            b"a: &x [*x]",
            "f.yaml:1:8: an alias must not be inside what it stands for\n",
            id="an alias without an end",
        ),
        pytest.param(
            b"kind: ConfigMap", "no job and no runtime to migrate in the files\n", id="nothing to migrate"
        ),
    ],
)
def test_what_cannot_be_asked_is_explained_with_its_place(call, text, message):
    if text is not None:
        Path("f.yaml").write_bytes(text)
    assert call("f.yaml") == (2, "", message)


def test_an_input_that_is_no_text_is_explained(call):
    broken = io.TextIOWrapper(io.BytesIO(b"\xff"), encoding="utf-8")
    answer = answered(run, [Path("-")], catalog=CATALOG, stdin=broken)
    assert answer == (2, "", "stdin:1: not UTF-8\n")


def test_jobs_that_have_ended_are_kept_when_asked(call):
    over = (JOB % ("a", "Running")) + "status: {conditions: [{type: Succeeded, status: 'True'}]}\n"
    said = "stdin:11: note: status: has ended (Succeeded) and is left out; --finished keeps such jobs\n"
    assert call("-", stdin=over) == (0, f"# {said}", said)
    code, text, told = call("-", stdin=over, finished=True, output=Output.JSON)
    assert (code, json.loads(text), told) == (0, {"objects": [TRAINJOB], "notes": []}, "")


def test_trainjobs_keep_a_prefix_for_their_names(call):
    old = """
apiVersion: trainer.kubeflow.org/v1alpha1
kind: TrainJob
metadata: {generateName: old-}
spec: {runtimeRef: {name: jax-distributed}, trainer: {numProcPerNode: "2"}}
"""
    code, text, said = call("-", stdin=f"{old}---{old}", output=Output.JSON)
    made = {
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": "TrainJob",
        "metadata": {"generateName": "old-"},
        "spec": {"runtimeRef": {"name": "jax-distributed"}, "trainer": {"numProcPerNode": 2}},
    }
    assert (code, json.loads(text)["objects"], said) == (0, [made, made], "")


@pytest.mark.parametrize(
    ("trainer", "why"),
    [
        ("args: 5", "spec.trainer.args: Invalid value: 5: must be a list of strings"),
        ("command: train", 'spec.trainer.command: Invalid value: "train": must be a list of strings'),
        ("env: true", "spec.trainer.env: Invalid value: true: must be a list of objects"),
        ("env: [{}]", "spec.trainer.env[0].name: Required value"),
        ("image: 5", "spec.trainer.image: Invalid value: 5: must be a string"),
    ],
)
@pytest.mark.parametrize("api", ["trainer.kubeflow.org/v1alpha1", "kubeflow.org/v2alpha1"])
def test_a_trainer_that_the_api_server_could_not_read_is_refused(call, api, trainer, why):
    spec = f'{{runtimeRef: {{name: jax-distributed}}, trainer: {{numProcPerNode: "2", {trainer}}}}}'
    old = f"apiVersion: {api}\nkind: TrainJob\nmetadata: {{name: old}}\nspec: {spec}\n"
    said = f"stdin:1: refused: admission would refuse the result: {why}\n"
    assert call("-", stdin=old) == (1, f"# {said}", said)


def test_a_number_of_processes_that_nobody_can_count_is_lost(call):
    policy = f'torch: {{numProcPerNode: "{"1" * 4301}"}}'
    runtime = (CATALOG / "torch-distributed.yaml").read_text().replace("torch: {}", policy)
    field = "lost: spec.mlPolicy.torch.numProcPerNode"
    said = (
        f"stdin:10: {field}: is neither a number nor one of auto, cpu and gpu\n"
        f"stdin:10: {field}: only a TrainJob can set it: without a number there is one process for each GPU "
        "or CPU\n"
    )
    code, _, told = call("-", stdin=runtime)
    assert (code, told) == (1, said)


@pytest.mark.parametrize(
    ("texts", "line", "other"),
    [
        pytest.param((JOB % ("a", "Running"), json.dumps(TRAINJOB)), 4, 13, id="before it"),
        pytest.param((json.dumps(TRAINJOB), JOB % ("a", "Running")), 6, 1, id="after it"),
    ],
)
def test_a_job_does_not_become_what_a_trainjob_of_the_files_is_called(call, texts, line, other):
    code, text, _ = call("-", stdin="\n---\n".join(texts), output=Output.JSON)
    note = {"level": "refused", "file": "stdin", "line": line, "field": "metadata.name"}
    message = f"is the name of the TrainJob from stdin:{other} too: rename one"
    assert (code, json.loads(text)) == (1, {"objects": [TRAINJOB], "notes": [{**note, "message": message}]})


def test_a_job_becomes_what_a_trainjob_that_has_ended_was_called(call):
    over = {**TRAINJOB, "status": {"conditions": [{"type": "Complete", "status": "True"}]}}
    texts = "\n---\n".join((JOB % ("a", "Running"), json.dumps(over)))
    code, text, _ = call("-", stdin=texts, output=Output.JSON)
    assert (code, json.loads(text)["objects"]) == (0, [TRAINJOB])
    code, text, _ = call("-", stdin=texts, output=Output.JSON, finished=True)
    assert (code, json.loads(text)["objects"]) == (1, [TRAINJOB])


def test_a_selector_of_another_object_that_finds_no_pod_any_more_is_said(call):
    label = "training.kubeflow.org/job-name"
    service = f"kind: Service\nspec: {{selector: {{app: x, {label}: a}}}}\n"
    code, text, _ = call("-", stdin=f"{JOB % ('a', 'Running')}---\n{service}", output=Output.JSON)
    [note] = json.loads(text)["notes"]
    assert (code, note["level"], note["line"], note["field"]) == (1, "lost", 13, f"spec.selector[{label}]")
    assert note["message"] == (
        "selects by training.kubeflow.org/job-name, which pods of TrainJobs do not have: "
        "they have jobset.sigs.k8s.io/jobset-name, jobset.sigs.k8s.io/replicatedjob-name"
    )


def test_a_job_inside_another_object_is_told_where_it_stands(call):
    inside = {"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob"}
    wrapper = json.dumps({"kind": "AppWrapper", "spec": {"components": [{"template": inside}]}})
    said = "a PyTorchJob stands inside AppWrapper, where nobody looks: put it into a document of its own"
    code, text, _ = call("-", stdin=f"{JOB % ('a', 'Running')}---\n{wrapper}", output=Output.JSON)
    [note] = json.loads(text)["notes"]
    assert (code, note["level"], note["line"], note["message"]) == (1, "lost", 12, said)
    nothing = "no job and no runtime to migrate in the files"
    assert call("-", stdin=wrapper) == (2, "", f"{nothing}; stdin:1: {said}\n")


def test_names_that_would_break_out_of_a_comment_do_not(call):
    job = (JOB % ("a", "Running")).replace("  runPolicy:", '  "x\\nkind: Evil":\n    1\n  runPolicy:')
    code, text, _ = call("-", stdin=job)
    assert code == 1
    said = "# stdin:6: lost: spec.x\\u000akind: Evil: is not a field of a JAXJob\n"
    assert text.startswith(f"{said}apiVersion:")


def test_the_command_exits_with_the_answer(tmp_path):
    app = typer.Typer()
    app.command()(command)
    file = tmp_path / "job.yaml"
    file.write_text(JOB % ("a", "Running"))
    done = CliRunner().invoke(app, [str(file), "-n", "team", "-o", "json"])
    assert (done.exit_code, json.loads(done.stdout)["objects"][-1]["kind"]) == (0, "TrainJob")
    assert CliRunner().invoke(app, ["-"], input=JOB % ("a", "All")).exit_code == 1
    missing = tmp_path / "none.yaml"
    assert answered(app, [str(missing)]) == (2, "", f"{missing}:1: No such file or directory\n")
    assert CliRunner().invoke(app, [str(file), "-o", "toml"]).exit_code == 2


def test_its_help_has_an_example_and_the_exit_codes():
    done = CliRunner().invoke(trainyard, ["migrate", "--help"])
    text = " ".join(done.stdout.split())
    assert done.exit_code == 0
    assert "kubectl get pytorchjobs -A -o yaml | trainyard migrate - > trainjobs.yaml" in text
    codes = "0 all is carried over; 1 something is not; 2 the files could not be read or written."
    assert f"Exit codes: {codes}" in text
