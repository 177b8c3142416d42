"""`trainyard validate` as it is called: files in, JSON and an exit code out."""

import io
import json

import pytest
import typer
from typer.testing import CliRunner

from tests.support.answers import answered
from tests.support.rendered import JOB, RUNTIME
from trainyard_api import documents
from trainyard_cli.commands.validate import command, run

GOOD = RUNTIME % "i"
BAD = GOOD.replace("- name: node", "- name: node\n        replicas: 2").replace(
    "template: {spec",
    "template: {metadata: {labels: {trainer.kubeflow.org/trainjob-ancestor-step: trainer}}, spec",
)
REPLICAS = {
    "field": "spec.template.spec.replicatedJobs[0].replicas",
    "type": "Invalid value",
    "message": "spec.template.spec.replicatedJobs[0].replicas: Invalid value: 2: always must be 1",
}
NOT_TRIED = (
    "Not tried: the schemas and rules, what Kubernetes and JobSet say in a dry run, queues and quotas. To "
    "check the schemas and the rules of a stack: trainyard lint --stack NAME"
)


def listed(text: str) -> str:
    [document] = documents.parse(text, "")
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": [document.value]})


@pytest.fixture
def call(tmp_path):
    folder = tmp_path / "catalog" / "plain"
    folder.mkdir(parents=True)
    (folder / "rt.yaml").write_text(GOOD)

    def call(*texts):
        files = [tmp_path / f"{number}.yaml" for number, _ in enumerate(texts)]
        for file, text in zip(files, texts, strict=True):
            if text is not None:
                file.write_text(text)
        code, out, err = answered(run, files, catalog=tmp_path / "catalog")
        return code, json.loads(out) if out else None, err.replace(f"{tmp_path}/", "")

    return call


@pytest.mark.parametrize(
    ("texts", "errors"),
    [
        pytest.param([JOB % "tj"], [], id="a TrainJob with a runtime of the catalog"),
        pytest.param([JOB % "tj", BAD], [], id="a TrainJob; a runtime beside it is only looked up"),
        pytest.param([GOOD], [], id="a runtime"),
        pytest.param([listed(BAD)], [REPLICAS], id="a runtime in a List"),
        pytest.param([BAD], [REPLICAS], id="a runtime that is refused"),
        pytest.param([BAD, BAD.replace("rt}", "other}")], [REPLICAS, REPLICAS], id="several runtimes"),
    ],
)
def test_the_answer_is_about(call, texts, errors):
    assert call(*texts)[:2] == (1 if errors else 0, {"warnings": [], "errors": errors})


SHOWN = (
    "0.yaml:4: metadata.generateName: the name is shown as %s-xxxxx: "
    "the API server puts five characters of its choice for xxxxx\n"
)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        pytest.param((JOB % "tj-").replace("{name: tj", "{generateName: tj"), SHOWN % "tj", id="TrainJob"),
        pytest.param(GOOD.replace("name: rt}", "generateName: rt-}"), SHOWN % "rt", id="runtime"),
    ],
)
def test_a_name_that_the_api_server_generates_is_shown_as_one(call, text, said):
    code, answer, err = call(text)
    assert (code, answer, err.startswith(said)) == (0, {"warnings": [], "errors": []}, True)


def test_a_job_that_is_sent_suspended_to_a_queue_is_warned_about(call):
    text = (JOB % "tj").replace("name: tj", "name: tj, labels: {kueue.x-k8s.io/queue-name: research}")
    text = text.replace("spec: {", "spec: {suspend: true, ")
    code, answer, _ = call(text)
    [warning] = answer["warnings"]
    assert (code, warning[:61]) == (0, "spec.suspend: is true, so this job waits, even if queue resea")


def test_what_was_not_tried_is_said_of_what_would_be_admitted(tmp_path):
    file = tmp_path / "rt.yaml"
    for text, said in ((GOOD, f"{NOT_TRIED} {file}\n"), (BAD, "")):
        file.write_text(text)
        err = io.StringIO()
        run([file], catalog=tmp_path, out=io.StringIO(), err=err)
        assert err.getvalue() == said


IN_A_WORKFLOW = f"""
kind: Workflow
spec:
  templates:
  - resource:
      action: create
      manifest: |
{"".join(f"        {line}" for line in (JOB % "tj-{{workflow.uid}}").strip().splitlines(keepends=True))}
"""


def test_a_job_that_another_object_holds_as_text_is_told_beside_the_answer(call):
    code, _, err = call(JOB % "tj", IN_A_WORKFLOW)
    assert (code, err.splitlines()[0]) == (
        0,
        "1.yaml:2: a TrainJob stands inside Workflow, where nobody looks: put it into a document of its own",
    )


def test_a_job_inside_another_object_is_told_where_it_stands(call):
    inside = {"apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "TrainJob"}
    wrapper = {"kind": "AppWrapper", "spec": {"components": [{"template": inside}]}}
    assert call(json.dumps(wrapper)) == (
        2,
        None,
        "no TrainJob and no runtime in the files; 0.yaml:1: a TrainJob stands inside AppWrapper, where "
        "nobody looks: put it into a document of its own\n",
    )


@pytest.mark.parametrize(
    ("reference", "runtime", "other"),
    [
        ("name: mine", "TrainingRuntime", "TrainingRuntime"),
        ("name: mine, kind: TrainingRuntime", "ClusterTrainingRuntime", "ClusterTrainingRuntime"),
    ],
)
def test_a_runtime_of_the_other_kind_is_named(call, reference, runtime, other):
    job = (JOB % "tj").replace("name: rt", reference)
    beside = GOOD.replace("ClusterTrainingRuntime", runtime).replace("name: rt", "name: mine")
    [error] = call(job, beside)[1]["errors"]
    assert error["message"].endswith(f"There is a {other} of that name: say runtimeRef.kind: {other}")


def test_the_second_trainjob_of_a_file_is_the_old_object_of_an_update(call):
    job = JOB % "tj"
    patched = job.replace("{runtimeRef", "{runtimePatches: [{manager: a.io/x}], runtimeRef")
    assert call(f"{patched}---{job}")[1]["errors"][0]["type"] == "Forbidden"
    assert call(patched, job)[:2] == (0, {"warnings": [], "errors": []})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param(None, "0.yaml:1: No such file or directory\n", id="no file"),
        pytest.param("- a", "0.yaml:1:1: a document must be an object\n", id="no object"),
        pytest.param("a: 1", "no TrainJob and no runtime in the files\n", id="nothing to ask about"),
        pytest.param(
            "apiVersion: trainer.kubeflow.org/v1alpha1\nkind: [TrainJob]",
            "no TrainJob and no runtime in the files\n",
            id="a kind that is none",
        ),
        pytest.param(
            "---".join([JOB % "tj"] * 3),
            "0.yaml:12: a file may hold one TrainJob and its old object\n",
            id="three TrainJobs",
        ),
        pytest.param(
            (JOB % "tj").replace("{name: rt}", "{}"),
            "0.yaml:2: spec.runtimeRef.name: Required value\n",
            id="a TrainJob that the API server could not read",
        ),
    ],
)
def test_what_cannot_be_asked_is_explained(call, text, message):
    assert call(text) == (2, None, message)


def test_the_command_exits_with_the_answer(tmp_path):
    app = typer.Typer()
    app.command()(command)
    good, bad = tmp_path / "good.yaml", tmp_path / "bad.yaml"
    good.write_text(f"{GOOD}---{JOB % 'tj'}")
    bad.write_text(BAD)
    done = CliRunner().invoke(app, ["-f", str(good), "-n", "team"])
    assert (done.exit_code, json.loads(done.stdout)) == (0, {"warnings": [], "errors": []})
    assert CliRunner().invoke(app, ["--file", str(bad)]).exit_code == 1
