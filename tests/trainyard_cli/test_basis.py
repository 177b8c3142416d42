"""What a roll-out goes by, and whether it has changed since the preview."""

from pathlib import Path

import pytest

from trainyard_cli.files import basis
from trainyard_cli.files.basis import Basis
from trainyard_platform.errors import PlatformError


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A site of its own with a stack `prod`, a program and a runtime."""
    for name, text in {
        "Pulumi.yaml": "name: site\nmain: program/\n",
        "stacks/Pulumi.prod.yaml": "config: {a: 1}\n",
        "program/__main__.py": "",
        "runtimes/torch/own.yaml": "a: 1\n",
    }.items():
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PULUMI_OPTION_CONFIG_FILE", raising=False)
    return tmp_path


def read() -> Basis:
    return Basis(basis.files("prod"), [])


@pytest.mark.parametrize(
    "name",
    [
        "stacks/Pulumi.prod.yaml",
        "program/__main__.py",
        "runtimes/torch/new.yaml",
        "api/trainyard_api/names.py",
        "policies/trainyard_policies/rules/own.py",
    ],
)
@pytest.mark.parametrize("content", [b"config: {a: 2}\n", b"\xff"])
def test_a_file_that_has_changed_since_the_preview_is_named(site: Path, name: str, content: bytes) -> None:
    before = read()
    (site / name).parent.mkdir(parents=True, exist_ok=True)
    (site / name).write_bytes(content)
    assert list(basis.refusals(before, read(), "prod")) == [
        f"refused: changed since the preview: {name}. Run the same command again, which makes a new preview"
    ]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("Pulumi.yaml", "name: site\nmain: program/\nbackend: {url: s3://others}\n"),
        ("Pulumi.yaml", "name: site\nmain: runtimes/\n"),
        ("requirements.txt", "trainyard==2\n"),
    ],
)
def test_a_file_at_the_top_that_has_changed_since_the_preview_is_named(
    site: Path, name: str, text: str
) -> None:
    before = read()
    (site / name).write_text(text)
    [sentence] = basis.refusals(before, read(), "prod")
    assert sentence.startswith(f"refused: changed since the preview: {name}. ")


VENDORED = """
config:
  trainyard:platform:
    operator: {image: "example.com/operator:1"}
    artifacts: {source: folder, folder: charts}
"""


def test_a_vendored_chart_that_has_changed_since_the_preview_is_named(site: Path) -> None:
    (site / "stacks" / "Pulumi.prod.yaml").write_text(VENDORED)
    chart = site / "charts" / "kueue" / "Chart.yaml"
    chart.parent.mkdir(parents=True)
    chart.write_text("a: 1\n")
    before = read()
    chart.write_text("a: 2\n")
    [sentence] = basis.refusals(before, read(), "prod")
    assert sentence.startswith("refused: changed since the preview: charts/kueue/Chart.yaml. ")


def test_what_pulumi_python_and_editors_write_is_no_change(site: Path) -> None:
    before = read()
    (site / "stacks" / "Pulumi.prod.yaml").write_text("encryptionsalt: v1:x\nconfig:\n  a: 1\n")
    for name in ("program/__pycache__/main.cpython.pyc", "runtimes/torch/.own.yaml.swp", "README.md"):
        (site / name).parent.mkdir(exist_ok=True)
        (site / name).write_text("x")
    assert list(basis.refusals(before, read(), "prod")) == []


def test_what_no_stack_depends_on_is_no_change(site: Path) -> None:
    before = read()
    for name in ("tests/trainyard_cli/test_up.py", "operator/trainyard_operator/main.py", "docs/stacks.md"):
        (site / name).parent.mkdir(parents=True)
        (site / name).write_text("x")
    assert list(basis.refusals(before, read(), "prod")) == []


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"", "1: must have the key name, with the name of the project"),
        (b"- name: site\n", "1: must have the key name, with the name of the project"),
        (b"name: 1\n", "1: must have the key name, with the name of the project"),
        (b"name: site\nmain: [\n", "3:1: the text ends where a value should be"),
        (b"name: \xff\n", "1: not UTF-8"),
    ],
)
def test_a_wrong_project_file_is_refused_with_its_place(site: Path, content: bytes, sentence: str) -> None:
    (site / "Pulumi.yaml").write_bytes(content)
    with pytest.raises(PlatformError) as refused:
        basis.files("prod")
    assert str(refused.value) == f"Pulumi.yaml:{sentence}"


def test_of_many_files_the_first_are_named() -> None:
    before, after = Basis({}, []), Basis({Path(f"{number}.yaml"): "x" for number in range(7)}, [])
    [sentence] = basis.refusals(before, after, "prod")
    assert "0.yaml, 1.yaml, 2.yaml, 3.yaml, 4.yaml and 2 more. " in sentence
