"""The catalog: real files are sound, broken ones are refused with file and line."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml
from kubeflow_trainer_api import models  # type: ignore[import-untyped]

from tests.support.program import ROOT
from trainyard_platform.catalog import files as catalog
from trainyard_platform.catalog import in_pods
from trainyard_platform.errors import PlatformError
from trainyard_platform.stack.runtimes import RuntimeOverlay

CATALOG = sorted((ROOT / "runtimes").glob("*/*.yaml"))
TORCH = "torch/torch-distributed.yaml"
PLAIN = "plain/plain.yaml"
MPI = "mpi/mpi-distributed.yaml"


@pytest.mark.parametrize("path", CATALOG, ids=lambda path: path.stem)
def test_an_entry_round_trips_through_the_sdk_models(path: Path) -> None:
    manifest = catalog.read(path).manifest
    runtime = models.TrainerV1alpha1ClusterTrainingRuntime.from_dict(manifest)
    assert runtime is not None
    # The models drop what they do not know: a typo shows as a difference.
    assert runtime.to_dict() == manifest


@pytest.mark.parametrize("path", CATALOG, ids=lambda path: path.stem)
def test_images_in_the_catalog_name_their_registry_and_tag(path: Path) -> None:
    manifest = catalog.read(path).manifest
    for job in manifest["spec"]["template"]["spec"]["replicatedJobs"]:
        for container in job["template"]["spec"]["template"]["spec"]["containers"]:
            RuntimeOverlay(image=container["image"])


def replace(old: str, new: str) -> Callable[[str], str]:
    def edit(text: str) -> str:
        assert text.count(old) == 1, old
        return text.replace(old, new)

    return edit


BODY = "apiVersion: trainer.kubeflow.org/v1alpha1\nkind: ClusterTrainingRuntime\n"


@dataclass(frozen=True)
class Broken:
    id: str
    edit: Callable[[str], str]
    line: Callable[[str], int]
    message: str
    column: str = ""


def line_of(start: str) -> Callable[[str], int]:
    """The last line that begins so."""

    def find(text: str) -> int:
        return max(number for number, line in enumerate(text.splitlines(), 1) if line.startswith(start))

    return find


BROKEN = [
    Broken(
        id="another kind",
        edit=replace("\nkind: ClusterTrainingRuntime", "\nkind: TrainingRuntime"),
        line=line_of("kind: TrainingRuntime"),
        message="kind: must be ClusterTrainingRuntime, and is TrainingRuntime",
    ),
    Broken(
        id="another version",
        edit=replace("\napiVersion: trainer.kubeflow.org/v1alpha1", "\napiVersion: trainer.kubeflow.org/v2"),
        line=line_of("apiVersion: trainer.kubeflow.org/v2"),
        message="apiVersion: must be trainer.kubeflow.org/v1alpha1, and is trainer.kubeflow.org/v2",
    ),
    Broken(
        id="a status",
        edit=lambda text: text + "status: {}\n",
        line=line_of("status: {}"),
        message="status: must be left out: the cluster sets it",
    ),
    Broken(
        id="a name that is not the file's",
        edit=replace("\n  name: torch-distributed", "\n  name: torch"),
        line=line_of("  name: torch"),
        message="metadata.name: must be the file's name, torch-distributed, and is torch",
    ),
    Broken(
        id="a namespace",
        edit=replace("\n  name: torch-distributed", "\n  namespace: a\n  name: torch-distributed"),
        line=line_of("  namespace: a"),
        message="metadata.namespace: must be left out: "
        "a file of the catalog has only name, labels and annotations",
    ),
    Broken(
        id="a framework that is not the folder's",
        edit=replace("framework: torch\n", "framework: pytorch\n"),
        line=line_of("    trainer.kubeflow.org/framework: pytorch"),
        message="metadata.labels[trainer.kubeflow.org/framework]: "
        "must be the folder's name, torch, and is pytorch",
    ),
    Broken(
        id="no labels",
        edit=replace("\n  labels:\n    trainer.kubeflow.org/framework: torch", ""),
        line=line_of("metadata:"),
        message="metadata.labels[trainer.kubeflow.org/framework]: "
        "must have the label trainer.kubeflow.org/framework",
    ),
    Broken(
        id="no policy",
        edit=replace("\n  mlPolicy:\n    numNodes: 1\n    torch: {}", ""),
        line=line_of("spec:"),
        message="spec.mlPolicy: must be set, at least with numNodes",
    ),
    Broken(
        id="no trainer",
        edit=replace("trainjob-ancestor-step: trainer", "trainjob-ancestor-step: model-initializer"),
        line=line_of("      replicatedJobs:"),
        message="spec.template.spec.replicatedJobs: must have a ReplicatedJob whose template has the label "
        "trainer.kubeflow.org/trainjob-ancestor-step: trainer",
    ),
    Broken(
        id="no containers",
        edit=lambda text: text[: text.index("                  containers:")],
        line=line_of("                spec:"),
        message="spec.template.spec.replicatedJobs[0].template.spec.template.spec.containers: Required value",
    ),
    Broken(
        id="not YAML",
        edit=replace("\n  name: torch-distributed", "\n  name: @torch"),
        line=line_of("  name: @torch"),
        column=":9",
        message="a value that begins with this character must be quoted",
    ),
    Broken(
        id="a key twice",
        edit=lambda text: text + "kind: ClusterTrainingRuntime\n",
        line=line_of("kind: ClusterTrainingRuntime"),
        column=":1",
        message="duplicate key 'kind'",
    ),
]


@pytest.mark.parametrize("case", BROKEN, ids=lambda case: case.id)
def test_a_broken_file_is_refused_with_its_line(catalog_folder: Path, case: Broken) -> None:
    path = catalog_folder / TORCH
    text = case.edit(path.read_text())
    path.write_text(text)
    with pytest.raises(PlatformError) as stopped:
        catalog.load(catalog_folder, {})
    assert str(stopped.value) == f"{path}:{case.line(text)}{case.column}: {case.message}"


def test_two_documents_in_a_file_are_refused(catalog_folder: Path) -> None:
    path = catalog_folder / TORCH
    path.write_text(path.read_text() + "---\n" + BODY)
    with pytest.raises(PlatformError) as stopped:
        catalog.load(catalog_folder, {})
    assert str(stopped.value) == f"{path}:1: must hold one YAML document, holds 2"


def test_an_empty_file_is_refused(catalog_folder: Path) -> None:
    path = catalog_folder / TORCH
    path.write_text("# nothing\n")
    with pytest.raises(PlatformError) as stopped:
        catalog.load(catalog_folder, {})
    assert str(stopped.value) == f"{path}:1: must hold one YAML document, holds 0"


def test_a_name_in_two_folders_is_refused(catalog_folder: Path) -> None:
    second = catalog_folder / "zorch/torch-distributed.yaml"
    second.parent.mkdir()
    second.write_text(
        (catalog_folder / TORCH).read_text().replace("framework: torch\n", "framework: zorch\n")
    )
    with pytest.raises(PlatformError) as stopped:
        catalog.load(catalog_folder, {})
    assert str(stopped.value) == (
        f"{second}:{line_of('  name: torch-distributed')(second.read_text())}: metadata.name: "
        f"must be unique in the catalog: {catalog_folder / TORCH} has it too"
    )


def test_an_empty_catalog_is_refused(tmp_path: Path) -> None:
    with pytest.raises(PlatformError, match=r"the catalog holds no <framework>/<name>\.yaml$"):
        catalog.load(tmp_path, {})


def test_changes_to_a_runtime_that_does_not_exist_are_refused(catalog_folder: Path) -> None:
    with pytest.raises(PlatformError) as stopped:
        catalog.load(catalog_folder, {"torch-distribute": RuntimeOverlay()})
    assert str(stopped.value) == (
        "trainyard:platform.runtimes.torch-distribute: the catalog has no such runtime "
        f"(it has: {', '.join(path.stem for path in sorted(CATALOG, key=lambda p: p.stem))}); "
        "did you mean torch-distributed?"
    )


def test_without_changes_a_runtime_is_the_file(catalog_folder: Path) -> None:
    loaded = {runtime.name: runtime for runtime in catalog.load(catalog_folder, {})}
    assert list(loaded) == sorted(loaded)
    assert loaded["mpi-distributed"].manifest == yaml.safe_load((catalog_folder / MPI).read_text())


def test_a_runtime_whose_file_asks_for_it_has_in_its_pods_what_notes_how_a_python_ended(
    catalog_folder: Path,
) -> None:
    loaded = {runtime.name: runtime for runtime in catalog.load(catalog_folder, {})}
    wanted = yaml.safe_load((catalog_folder / TORCH).read_text())
    [job] = wanted["spec"]["template"]["spec"]["replicatedJobs"]
    template = job["template"]["spec"]["template"]
    text = in_pods.MODULE.read_text(encoding="utf-8")
    template["metadata"] = {"annotations": {"trainyard.dev/sitecustomize.py": text}}
    field = {"fieldPath": "metadata.annotations['trainyard.dev/sitecustomize.py']"}
    item = {"path": "sitecustomize.py", "fieldRef": field}
    template["spec"]["volumes"] = [{"name": "trainyard-python", "downwardAPI": {"items": [item]}}]
    [container] = template["spec"]["containers"]
    container["volumeMounts"] = [
        {"name": "trainyard-python", "mountPath": "/etc/trainyard/python", "readOnly": True}
    ]
    container["env"].append({"name": "PYTHONPATH", "value": "/etc/trainyard/python"})
    assert loaded["torch-distributed"].manifest == wanted


def test_a_path_of_the_runtimes_own_stays_behind_it(catalog_folder: Path) -> None:
    file = catalog_folder / TORCH
    unbuffered = "- name: PYTHONUNBUFFERED"
    own = f"- name: PYTHONPATH\n                          value: /own\n                        {unbuffered}"
    file.write_text(file.read_text().replace(unbuffered, own))
    [torch] = (one for one in catalog.load(catalog_folder, {}) if one.name == "torch-distributed")
    [job] = torch.manifest["spec"]["template"]["spec"]["replicatedJobs"]
    [container] = job["template"]["spec"]["template"]["spec"]["containers"]
    assert container["env"][0] == {"name": "PYTHONPATH", "value": "/etc/trainyard/python:/own"}


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("/own", "/etc/trainyard/python:/own"),
        ("", "/etc/trainyard/python"),
        ("/first:/etc/trainyard/python", "/first:/etc/trainyard/python"),
    ],
    ids=["another", "empty", "one with it"],
)
def test_a_path_of_the_stacks_own_stays_behind_it(catalog_folder: Path, path: str, value: str) -> None:
    change = RuntimeOverlay.model_validate({"env": {"PYTHONPATH": path}})
    runtimes = catalog.load(catalog_folder, {"torch-distributed": change})
    [torch] = (runtime for runtime in runtimes if runtime.name == "torch-distributed")
    [job] = torch.manifest["spec"]["template"]["spec"]["replicatedJobs"]
    [container] = job["template"]["spec"]["template"]["spec"]["containers"]
    paths = [variable for variable in container["env"] if variable["name"] == "PYTHONPATH"]
    assert paths == [{"name": "PYTHONPATH", "value": value}]


def test_a_field_that_is_empty_counts_as_left_out(catalog_folder: Path) -> None:
    file = catalog_folder / TORCH
    file.write_text(
        file.read_text().replace(
            "              template:\n", "              template:\n                metadata:\n"
        )
    )
    assert "torch-distributed" in {one.name for one in catalog.load(catalog_folder, {})}


POD = "spec.template.spec.replicatedJobs[0].template.spec.template.spec"


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (
            "  annotations:\n    trainyard.dev/last-words: python\n",
            "  annotations: [x]\n",
            '34: metadata.annotations: Invalid value: "list": must be an object',
        ),
        (
            "                      env:\n",
            "                      env: x\n                      args:\n",
            f'71: {POD}.containers[0].env: Invalid value: "x": must be a list of objects',
        ),
        (
            "                      image: ",
            "                      imagePulPolicy: Always\n                      image: ",
            f"69: {POD}.containers[0].imagePulPolicy: there is no such field; did you mean imagePullPolicy?",
        ),
    ],
    ids=["annotations", "environment", "a misspelt field"],
)
def test_a_field_that_is_not_as_the_schemas_have_it_is_refused_with_its_line(
    catalog_folder: Path, old: str, new: str, said: str
) -> None:
    file = catalog_folder / TORCH
    file.write_text(file.read_text().replace(old, new))
    with pytest.raises(PlatformError) as error:
        catalog.load(catalog_folder, {})
    assert str(error.value) == f"{file}:{said}"


def test_last_words_that_nobody_knows_are_refused(catalog_folder: Path) -> None:
    file = catalog_folder / TORCH
    file.write_text(file.read_text().replace("last-words: python", "last-words: perl"))
    with pytest.raises(
        PlatformError, match=r"torch-distributed.yaml:35: .*last-words\]: must be python, and is perl$"
    ):
        catalog.load(catalog_folder, {})


def test_a_path_from_elsewhere_is_refused_where_the_last_words_need_one(catalog_folder: Path) -> None:
    file = catalog_folder / TORCH
    unbuffered = "- name: PYTHONUNBUFFERED"
    indent = " " * 26
    key = f"{indent}    configMapKeyRef: {{name: paths, key: python}}\n"
    own = f"- name: PYTHONPATH\n{indent}valueFrom:\n{key}{indent[:-2]}{unbuffered}"
    text = file.read_text().replace(unbuffered, own)
    file.write_text(text)
    with pytest.raises(PlatformError) as error:
        catalog.load(catalog_folder, {})
    line = text[: text.index("valueFrom")].count("\n") + 1
    assert str(error.value) == (
        f"{file}:{line}: {POD}.containers[0].env[0].valueFrom: must be a value, because of the annotation "
        "trainyard.dev/last-words"
    )
    file.write_text(text.replace("  annotations:\n    trainyard.dev/last-words: python\n", ""))
    assert "torch-distributed" in {runtime.name for runtime in catalog.load(catalog_folder, {})}


def test_a_disabled_runtime_is_left_out(catalog_folder: Path) -> None:
    loaded = catalog.load(catalog_folder, {"plain": RuntimeOverlay(enabled=False)})
    everything = {runtime.name for runtime in catalog.load(catalog_folder, {})}
    assert {runtime.name for runtime in loaded} == everything - {"plain"}


def test_an_optional_runtime_is_there_for_stacks_that_ask_for_it(catalog_folder: Path) -> None:
    def has(**changes: RuntimeOverlay) -> bool:
        loaded = catalog.load(catalog_folder, {name.replace("_", "-"): one for name, one in changes.items()})
        return "torch-rdma" in {runtime.name for runtime in loaded}

    assert not has()
    assert not has(torch_rdma=RuntimeOverlay(env={"A": "b"}))
    assert has(torch_rdma=RuntimeOverlay(enabled=True))
    assert {one.name for one in catalog.every(catalog_folder)} == {path.stem for path in CATALOG}
