"""`trainyard show`: where each thing of a site comes from, and what it hides."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.answers import answered
from tests.support.versions import VERSION
from trainyard_api.places import DATA
from trainyard_cli.commands import init, show
from trainyard_cli.output import Output
from trainyard_platform.catalog import images

DISTRIBUTED = "runtimes/torch/torch-distributed.yaml"
STACK = """config:
  trainyard:platform:
    operator:
      image: docker.io/trainyard/operator:0.1.0
      replicas: 2
    runtimes:
      torch-distributed: {resources: {nvidia.com/gpu: "8"}}
"""
AUDIO = "runtimes/audio/audio.yaml"
SHIPPED = f"trainyard {VERSION}"


@pytest.fixture(autouse=True)
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    answered(init.run, Path("acme"), stack="prod", source="onprem")
    monkeypatch.chdir("acme")
    Path("stacks/Pulumi.prod.yaml").write_text(STACK)
    for name in (DISTRIBUTED, AUDIO):
        Path(name).parent.mkdir()
        text = (DATA / DISTRIBUTED).read_text()
        if "audio" in name:
            text = text.replace("torch-distributed", "audio").replace("framework: torch", "framework: audio")
        Path(name).write_text(text)


def rows(**options: Any) -> dict[tuple[str, str], dict[str, Any]]:
    code, out, err = answered(show.run, output=Output.JSON, **options)
    assert (code, err) == (0, "")
    return {(row["kind"], row["name"]): row for row in json.loads(out)}


def test_each_runtime_says_where_it_comes_from_and_which_one_it_hides() -> None:
    given = rows()
    shipped = {path.stem for path in (DATA / "runtimes").glob("*/*.yaml")}
    assert {name for kind, name in given if kind == "runtime"} == {*shipped, "audio"}
    assert [given["runtime", name] for name in ("audio", "plain", "torch-distributed")] == [
        {
            "kind": "runtime",
            "name": "audio",
            "value": "audio",
            "from": "runtimes/audio/audio.yaml",
            "hides": None,
        },
        {"kind": "runtime", "name": "plain", "value": "plain", "from": SHIPPED, "hides": None},
        {
            "kind": "runtime",
            "name": "torch-distributed",
            "value": "torch",
            "from": DISTRIBUTED,
            "hides": f"{SHIPPED}: torch/torch-distributed.yaml",
        },
    ]


def test_each_value_of_a_stack_has_its_line_and_the_default_that_it_hides() -> None:
    values = [row for (kind, _), row in rows(stack="prod").items() if kind == "value"]
    file = "stacks/Pulumi.prod.yaml"
    assert [(row["name"], row["value"], row["from"], row["hides"]) for row in values] == [
        ("operator.image", "docker.io/trainyard/operator:0.1.0", f"{file}:4", None),
        ("operator.replicas", 2, f"{file}:5", 1),
        ("runtimes.torch-distributed.resources.nvidia.com/gpu", "8", f"{file}:7", None),
    ]


def test_a_digest_of_the_site_hides_the_shipped_one() -> None:
    image, pin = next(iter(images.load(DATA / "runtimes").items()))
    digest = f"sha256:{'1' * 64}"
    Path("runtimes/images.yaml").write_text(
        f"images:\n  - {{name: {pin.name}, tag: '{pin.tag}', digest: '{digest}'}}\n"
    )
    assert rows()["image", image] == {
        "kind": "image",
        "name": image,
        "value": digest,
        "from": "runtimes/images.yaml",
        "hides": pin.digest,
    }


def test_the_table_has_the_origins_that_are_asked_for() -> None:
    _, out, _ = answered(show.run)
    assert [line.split() for line in out.splitlines()[:2]] == [
        ["KIND", "NAME", "VALUE"],
        ["runtime", "audio", "audio"],
    ]
    _, out, _ = answered(show.run, origin=True, stack="prod")
    lines = [" ".join(line.split()) for line in out.splitlines()]
    assert lines[0] == "KIND NAME VALUE FROM HIDES"
    assert "value operator.replicas 2 stacks/Pulumi.prod.yaml:5 1" in lines


def test_a_stack_that_is_not_there_is_named() -> None:
    assert answered(show.run, stack="dev") == (2, "", "stacks/Pulumi.dev.yaml:1: No such file or directory\n")
