"""`trainyard render` as it is called: files in, YAML and an exit code out."""

import json

import pytest
import typer
from typer.testing import CliRunner

from tests.support.answers import answered
from tests.support.rendered import JOB, RUNTIME
from trainyard_api import documents
from trainyard_cli.commands.render import command, run


@pytest.fixture
def call(tmp_path):
    catalog = tmp_path / "catalog" / "plain"
    catalog.mkdir(parents=True)
    (catalog / "rt.yaml").write_text(RUNTIME % "i")

    def call(text, **options):
        file = tmp_path / "job.yaml"
        if text is not None:
            file.write_text(text)
        code, out, err = answered(run, [file], catalog=tmp_path / "catalog", **options)
        return code, out, err.replace(str(file), "job.yaml")

    return call


def test_a_trainjob_is_printed_as_its_children_with_the_runtime_of_the_catalog(call):
    code, out, err = call(JOB % "tj", namespace="team")
    (child,) = (document.value for document in documents.parse(out, "out"))
    assert (code, err) == (0, "")
    assert (child["kind"], child["metadata"]["name"], child["metadata"]["namespace"]) == (
        "JobSet",
        "tj",
        "team",
    )


def test_trainjobs_in_a_list_are_printed_as_their_children(call):
    jobs = [documents.parse(JOB % name, "")[0].value for name in ("a", "b")]
    code, out, err = call(json.dumps({"kind": "TrainJobList", "items": jobs}))
    names = [document.value["metadata"]["name"] for document in documents.parse(out, "out")]
    assert (code, err, names) == (0, "", ["a", "b"])


def test_a_trainjob_that_gets_its_name_from_the_api_server_is_printed_with_a_stable_one(call):
    code, out, err = call((JOB % "tj-").replace("{name: tj", "{generateName: tj"))
    (child,) = (document.value for document in documents.parse(out, "out"))
    assert (code, child["metadata"]["name"]) == (0, "tj-xxxxx")
    assert err == (
        "job.yaml:4: metadata.generateName: the name is shown as tj-xxxxx: "
        "the API server puts five characters of its choice for xxxxx\n"
    )


@pytest.mark.parametrize(
    ("text", "options", "code", "message"),
    [
        pytest.param(
            (JOB % "tj").replace("name: rt", "name: x"),
            {},
            1,
            'job.yaml:2: ClusterTrainingRuntime "x" is neither in the files nor in the catalog\n',
            id="the answer is no",
        ),
        pytest.param(
            (JOB % "tj").replace("name: rt", "name: rt, kind: TrainingRuntime"),
            {},
            1,
            'job.yaml:2: TrainingRuntime "rt" is neither in the files nor in the catalog. There is a '
            "ClusterTrainingRuntime of that name: say runtimeRef.kind: ClusterTrainingRuntime\n",
            id="a runtime of the other kind",
        ),
        pytest.param("a: [", {}, 2, "job.yaml:1:5: the text ends where a value should be\n", id="no YAML"),
        pytest.param("- a", {}, 2, "job.yaml:1:1: a document must be an object\n", id="no object"),
        pytest.param(None, {}, 2, "job.yaml:1: No such file or directory\n", id="no file"),
        pytest.param("", {}, 2, "no TrainJob in the files\n", id="no TrainJob"),
        pytest.param(
            JOB % "tj",
            {"feature_gates": "Magic=true"},
            2,
            "unknown feature gate Magic; known: TrainJobStatus\n",
            id="no gate",
        ),
    ],
)
def test_what_is_not_printed_is_explained(call, text, options, code, message):
    assert call(text, **options) == (code, "", message)


def test_the_command_takes_several_files_and_exits_with_the_answer(tmp_path):
    app = typer.Typer()
    app.command()(command)
    job, runtime = tmp_path / "job.yaml", tmp_path / "runtime.yaml"
    job.write_text(JOB % "tj")
    runtime.write_text(RUNTIME % "i")
    done = CliRunner().invoke(app, ["-f", str(job), "--file", str(runtime), "-n", "team"])
    assert (done.exit_code, done.stdout.splitlines()[:2]) == (
        0,
        ["apiVersion: jobset.x-k8s.io/v1alpha2", "kind: JobSet"],
    )
    assert answered(app, ["-f", str(runtime)]) == (2, "", "no TrainJob in the files\n")
