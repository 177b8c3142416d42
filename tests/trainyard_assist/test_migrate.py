"""Every case beside this file: jobs of older APIs in, all that `trainyard migrate` prints out."""

import io
import itertools
import json
import random
import re
from pathlib import Path

import pytest

from tests.support.answers import answered
from tests.support.checked_in import hold
from tests.support.junk import places, spoiled
from trainyard_api import documents
from trainyard_assist.migrate import convert
from trainyard_cli.commands import migrate, render, validate

FOLDER = Path(__file__).parent / "migrate"
CASES = sorted(path.stem for path in (FOLDER / "cases").glob("*.yaml"))
CATALOG = FOLDER / "catalog"
OURS = ("TrainJob", "TrainingRuntime")
FOR_THE_PLATFORM = (
    "Data scientists may not create TrainingRuntimes: %s.\n"
    "Have the platform team create them, or add them to the catalog.\n"
)
DEEP = json.loads('{"a":' * 30 + "1" + "}" * 30)
JUNK = (
    *(None, "", "x" * 300, "a\nb: c", "auto", "2", "None", -1, 0, 2, 2**70, 1.5, True, [], {}),
    *([None], [[]], ["a"], {"": {}}, {"a\nb": 1}, {"name": 1}, DEEP),
    *([{"name": None}], [{"name": "node"}, {"name": "node"}]),
)
SHARE = 1 / 20
"""Of all places and all junk, to keep the test short; always the same ones."""


def migrated(*files, **options):
    return answered(migrate.run, files, catalog=CATALOG, **options)


def parsed(text):
    return [document.value for document in documents.parse(text, "text")]


def expected_code(text):
    return 1 if any(f": {level}: " in text for level in ("lost", "refused")) else 0


@pytest.mark.parametrize("case", CASES)
def test_a_job_becomes(case, monkeypatch):
    monkeypatch.chdir(FOLDER / "cases")
    code, text, notes = migrated(Path(f"{case}.yaml"))
    hold(FOLDER / "expected" / f"{case}.yaml", text)
    told = "".join(line[2:] for line in text.splitlines(keepends=True) if line.startswith("# "))
    own = [
        one["metadata"]["name"]
        for one, after in itertools.pairwise(parsed(text))
        if (one["kind"], after["kind"]) == ("TrainingRuntime", "TrainJob")
        and one["metadata"]["name"] == after["metadata"]["name"]
    ]
    assert notes == told + (FOR_THE_PLATFORM % ", ".join(sorted(own)) if own else "")
    assert code == expected_code(text)


@pytest.mark.parametrize("case", CASES)
def test_what_comes_out_is_let_in_by_admission_and_can_be_built(case, tmp_path):
    objects = [
        one for one in parsed((FOLDER / "expected" / f"{case}.yaml").read_text()) if one["kind"] in OURS
    ]
    files = [tmp_path / f"{number}.yaml" for number, _ in enumerate(objects)]
    for file, one in zip(files, objects, strict=True):
        file.write_text(documents.dump([one]))
    out, err = io.StringIO(), io.StringIO()
    if objects:
        assert validate.run(files, catalog=CATALOG, out=out, err=io.StringIO()) == 0
        answer = json.loads(out.getvalue())
        assert (answer["warnings"], answer["errors"]) == ([], [])
        assert (render.run(files, catalog=CATALOG, out=io.StringIO(), err=err), err.getvalue()) == (0, "")


@pytest.mark.parametrize("case", CASES)
def test_what_comes_out_goes_through_again_as_it_is(case, tmp_path):
    text = (FOLDER / "expected" / f"{case}.yaml").read_text()
    again = tmp_path / "again.yaml"
    again.write_text(text)
    if not any(one["kind"] in OURS for one in parsed(text)):
        return
    code, second, notes = migrated(again)
    assert (code, parsed(second), notes) == (0, parsed(text), "")


def test_every_expectation_has_its_case():
    assert sorted(path.stem for path in (FOLDER / "expected").glob("*.yaml")) == CASES


def of_account(name, folder):
    """A job of PyTorch whose pods have this service account."""
    text = (FOLDER / "cases" / "pytorchjob-alike.yaml").read_text()
    file = folder / "job.yaml"
    file.write_text(text.replace("serviceAccountName: trainer", f"serviceAccountName: {name}"))
    return file


def test_the_catalog_of_this_repository_runs_jobs_of_pytorch_and_tensorflow(tmp_path):
    out = io.StringIO()
    cases = ("tfjob-workers", "tfjob-on-tensorflow-ps")
    files = [of_account("default", tmp_path), *(FOLDER / "cases" / f"{case}.yaml" for case in cases)]
    assert migrate.run(files, out=out, err=io.StringIO()) == 0
    references = [one["spec"]["runtimeRef"] for one in parsed(out.getvalue()) if one["kind"] == "TrainJob"]
    assert references == [
        {"name": "torch-distributed"},
        {"name": "tensorflow-distributed"},
        {"name": "tensorflow-ps"},
        *({"kind": "TrainingRuntime", "name": name} for name in ("more-servers", "all-workers")),
    ]


def test_a_job_that_names_a_service_account_keeps_the_token_that_pods_of_the_catalog_do_not_have(tmp_path):
    out, err = io.StringIO(), io.StringIO()
    assert migrate.run([of_account("trainer", tmp_path)], out=out, err=err) == 0
    runtime, job = parsed(out.getvalue())
    assert job["spec"]["runtimeRef"] == {"kind": "TrainingRuntime", "name": "mnist"}
    [step] = runtime["spec"]["template"]["spec"]["replicatedJobs"]
    pod = step["template"]["spec"]["template"]["spec"]
    assert [pod.get(key) for key in ("serviceAccountName", "automountServiceAccountToken")] == [
        "trainer",
        None,
    ]
    said = (
        "TrainingRuntime mnist takes the place of torch-distributed, which gives its pods no token of the "
        "service account that the job names"
    )
    assert f"changed: spec.pytorchReplicaSpecs.Master: {said}\n" in err.getvalue()


@pytest.mark.parametrize("case", CASES)
def test_whatever_a_job_holds_there_is_an_answer(case):
    """Each field in turn is something else; a conversion may refuse, and never fails."""
    catalog = [one for path in CATALOG.glob("*.yaml") for one in documents.parse(path.read_text(), path.name)]
    given = documents.parse((FOLDER / "cases" / f"{case}.yaml").read_text(), "f.yaml")
    chance = random.Random(case)  # noqa: S311
    for document in given:
        for place, junk in itertools.product(places(document.value), JUNK):
            value = spoiled(document.value, place, junk)
            if not isinstance(value, dict) or chance.random() > SHARE:
                continue
            try:
                answer = convert.migrate([documents.Document("f.yaml", 1, value)], catalog)
            except convert.NothingToMigrateError:
                continue
            for outcome in answer:
                documents.parse(documents.dump(outcome.objects), "out.yaml")
                assert all(str(note).isprintable() for note in outcome.notes)


def programs(case):
    """Of each JobSet that comes of a case: command, arguments and task of each ReplicatedJob."""
    out = io.StringIO()
    assert (
        render.run([FOLDER / "expected" / f"{case}.yaml"], catalog=CATALOG, out=out, err=io.StringIO()) == 0
    )
    made = {}
    for jobset in parsed(out.getvalue()):
        for job in jobset["spec"]["replicatedJobs"] if jobset["kind"] == "JobSet" else ():
            [container] = job["template"]["spec"]["template"]["spec"]["containers"]
            env = {variable["name"]: variable.get("value") for variable in container.get("env", ())}
            words = [*container.get("command", ()), *container.get("args", ())]
            task = re.search(r'"task":{"type":"(\w+)"', env.get("TF_CONFIG", ""))
            made[jobset["metadata"]["name"], job["name"]] = (words, task and task[1])
    return made


def test_each_task_of_a_tfjob_runs_its_own_program_and_the_platform_says_which_it_is():
    assert programs("tfjob-parameter-servers") == {
        ("dist-mnist", "chief"): ([], "chief"),
        ("dist-mnist", "ps"): ([], "ps"),
        ("dist-mnist", "evaluator"): ([], "evaluator"),
        ("dist-mnist", "node"): (["--steps=10"], "worker"),
    }
    assert programs("tfjob-on-tensorflow-ps") == {
        (job, step): (["python", "train.py"], task)
        for job in ("embeddings", "more-servers", "all-workers")
        for step, task in [("chief", "chief"), ("ps", "ps"), ("node", "worker")]
    }
    assert programs("tfjob-chief") == {
        ("chief", "node"): (["python", "train.py", "--first=chief-node-0-0.chief"], "worker"),
        ("master", "chief"): (["python", "train.py"], "chief"),
        ("master", "node"): (["python", "train.py"], "worker"),
        ("leads", "ps"): (["python"], "ps"),
        ("leads", "node"): (["python"], "worker"),
    }
