"""Each runtime of the catalog, by the TrainJob in its header: what becomes of it, as whole objects.

A runtime that is added needs no expectation here, only a header and an example.
`make generate` writes the expectations of those that have one.
"""

import json
from collections.abc import Iterable
from datetime import date
from io import StringIO
from pathlib import Path

import pytest
from kubeflow.trainer.backends.kubernetes import utils
from kubeflow_trainer_api import models  # type: ignore[import-untyped]

from tests.support.checked_in import hold
from trainyard_api import documents, names
from trainyard_assist.render import render
from trainyard_cli.commands import lint, validate
from trainyard_platform.catalog import files as catalog
from trainyard_platform.catalog import header as catalog_header
from trainyard_platform.catalog import images as catalog_images

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "runtimes"
CATALOG = sorted(FOLDER.glob("*/*.yaml"))
GOLDEN = Path(__file__).parent / "golden"
SHIPPED = [path for path in CATALOG if (GOLDEN / f"{path.stem}.yaml").exists()]

WARNED = 'ClusterTrainingRuntime "{}" is deprecated'

every_runtime = pytest.mark.parametrize("path", CATALOG, ids=lambda path: path.stem)


def example(path: Path) -> tuple[documents.Document, ...]:
    return documents.parse(catalog_header.parse(path.read_text()).example, f"{path.stem}-example.yaml")


def is_deprecated(path: Path) -> bool:
    labels = catalog.read(path).manifest["metadata"]["labels"]
    return bool(labels.get(names.SUPPORT_LABEL) == names.SUPPORT_DEPRECATED)


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_its_example_becomes(path: Path) -> None:
    children = documents.dump(render(example(path), documents.parse(path.read_text(), path.name)))
    hold(GOLDEN / f"{path.stem}.yaml", children)


def test_there_is_a_runtime_for_each_expectation() -> None:
    assert sorted(path.stem for path in GOLDEN.glob("*.yaml")) == sorted(path.stem for path in SHIPPED)


@every_runtime
def test_admission_lets_it_and_its_example_in(path: Path, tmp_path: Path) -> None:
    job = tmp_path / "job.yaml"
    job.write_text(catalog_header.parse(path.read_text()).example)
    for files in ([path], [path, job]):
        out, err = StringIO(), StringIO()
        code, answer = validate.run(files, catalog=tmp_path, out=out, err=err), json.loads(out.getvalue())
        warned = [WARNED.format(path.stem) in warning for warning in answer["warnings"]]
        assert (code, warned, answer["errors"]) == (0, [True] * is_deprecated(path), [])
        assert err.getvalue().startswith("Not tried: ")


def test_a_deprecated_runtime_names_what_takes_its_place_and_no_other_does() -> None:
    headers = {path.stem: catalog_header.parse(path.read_text()) for path in CATALOG}
    deprecated = {path.stem for path in CATALOG if is_deprecated(path)}
    assert {name for name, header in headers.items() if header.successors(headers)} == deprecated
    assert deprecated.isdisjoint(name for header in headers.values() for name in header.successors(headers))


@every_runtime
def test_the_rules_have_nothing_mandatory_against_it_and_its_example(path: Path, tmp_path: Path) -> None:
    job = tmp_path / "job.yaml"
    job.write_text(catalog_header.parse(path.read_text()).example)
    out = StringIO()
    assert lint.run([path, job], today=date(2026, 11, 21), out=out, err=StringIO()) == 0, out.getvalue()


def test_the_sdk_lists_every_runtime() -> None:
    trainers = {}
    for path in CATALOG:
        runtime = models.TrainerV1alpha1ClusterTrainingRuntime.from_dict(catalog.read(path).manifest)
        jobs = runtime.spec.template.spec.replicated_jobs
        trainer = utils.get_runtime_trainer(path.parent.name, jobs, runtime.spec.ml_policy)
        trainers[path.stem] = (trainer.framework, trainer.trainer_type.name)
    assert trainers == {
        path.stem: (
            path.parent.name,
            "BUILTIN_TRAINER" if path.parent.name == "torchtune" else "CUSTOM_TRAINER",
        )
        for path in CATALOG
    }


@every_runtime
def test_its_header_says_what_it_is_for_and_for_whom(path: Path) -> None:
    text = path.read_text()
    header = catalog_header.parse(text)
    [job] = example(path)
    assert text.startswith(f"{catalog_header.SCHEMA}\n#\n")
    assert header.summary.endswith(".")
    assert header.about.startswith("For ")
    assert (job.value["kind"], job.value["spec"]["runtimeRef"]) == ("TrainJob", {"name": path.stem})


def images(paths: Iterable[Path]) -> set[str]:
    named = set()
    for path in paths:
        for job in catalog.read(path).manifest["spec"]["template"]["spec"]["replicatedJobs"]:
            pod = job["template"]["spec"]["template"]["spec"]
            for container in (*pod.get("initContainers", ()), *pod["containers"]):
                named.add(container["image"])
                named |= {e["value"] for e in container.get("env", ()) if e["name"] == "CACHE_IMAGE"}
    return named


def test_the_one_file_of_digests_has_every_image_that_is_shipped_and_none_that_is_not_used() -> None:
    pins = set(catalog_images.load(FOLDER))
    assert (images(SHIPPED) - pins, pins - images(CATALOG)) == (set(), set())
