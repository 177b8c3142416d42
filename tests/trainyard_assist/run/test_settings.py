"""What a run may say, in three places, and what is said of mistakes in each."""

import pytest

from trainyard_api.errors import UserError
from trainyard_assist.run import settings
from trainyard_assist.run.settings import Settings

ALLOWED = (
    "--runtime, --nodes, --gpus, --cpus, --memory, --queue, --priority, --name, --image, --workspace, "
    "--requirements, --workspace-volume, --env, "
    "--secret"
)


def said(given: Settings) -> dict[str, object]:
    return given.model_dump(exclude_unset=True)


def test_a_command_line_gives_what_it_names() -> None:
    options = {
        "nodes": 2,
        "gpus": None,
        "cpus": "8",
        "env": ["A=1", "B=x=y"],
        "secret": [],
        "command": ["python", "t.py"],
    }
    assert said(settings.of_options(options)) == {
        "nodes": 2,
        "cpus": "8",
        "env": {"A": "1", "B": "x=y"},
        "command": ["python", "t.py"],
    }


def test_a_file_gives_the_same_settings() -> None:
    text = """
runtime: torch-distributed
nodes: 4
gpus: 8
cpus: 16
memory: 64Gi
env:
  EPOCHS: "3"
secrets: [hub, "keys:TOKEN"]
command: [python, train.py]
"""
    assert said(settings.of_file(text, "trainyard.yaml")) == {
        "runtime": "torch-distributed",
        "nodes": 4,
        "gpus": 8,
        "cpus": "16",
        "memory": "64Gi",
        "env": {"EPOCHS": "3"},
        "secrets": ["hub", "keys:TOKEN"],
        "command": ["python", "train.py"],
    }
    assert said(settings.of_file("", "trainyard.yaml")) == {}


def test_the_head_of_a_script_gives_the_same_settings_in_the_words_of_a_shell() -> None:
    script = """#!/bin/bash
# Trains.
#TRAINYARD --nodes 4 --gpus=8  # all of it

#TRAINYARD --env 'NOTE=two words' --secret hub
#TRAINYARDS are not ours
echo
#TRAINYARD --nodes 5
"""
    assert said(settings.of_head(script.splitlines(), "train.sh")) == {
        "nodes": 4,
        "gpus": 8,
        "env": {"NOTE": "two words"},
        "secrets": ["hub"],
    }


@pytest.mark.parametrize("comment", ["", " # don't", " #don't", " # --nodes 5"])
def test_a_comment_begins_a_word_and_not_within_one(comment: str) -> None:
    line = f"#TRAINYARD --env COLOUR=#ff0000 --env 'NOTE=a # b' --nodes 4{comment}"
    assert said(settings.of_head([line], "s.sh")) == {
        "nodes": 4,
        "env": {"COLOUR": "#ff0000", "NOTE": "a # b"},
    }


def test_what_comes_last_wins_and_variables_are_joined() -> None:
    file = settings.of_file("{nodes: 1, gpus: 8, env: {A: f, B: f}, secrets: [hub]}", "f")
    head = settings.of_head(["#TRAINYARD --nodes 2 --env B=h --secret own"], "s")
    line = settings.of_options({"nodes": 3, "env": ["C=l"]})
    assert said(settings.merged([file, head, line])) == {
        "nodes": 3,
        "gpus": 8,
        "env": {"A": "f", "B": "h", "C": "l"},
        "secrets": ["hub", "own"],
    }


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"nodes": 0}, "--nodes: must be greater than or equal to 1; is 0"),
        ({"nodes": 10**30}, f"--nodes: must be less than or equal to 2147483647; is {10**30}"),
        ({"gpus": -1}, "--gpus: must be greater than or equal to 0; is -1"),
        ({"cpus": "many"}, "--cpus: must be a quantity, such as 500m, 8 or 64Gi; is 'many'"),
        (
            {"name": "My_Job"},
            "--name: must be at most 63 small letters, digits and hyphens, and begin with a letter; "
            "is 'My_Job'",
        ),
        ({"env": ["A"]}, "--env A: must be a variable and its value, such as EPOCHS=3"),
        ({"env": ["1 A=b"]}, "--env: must be the name of a variable, such as EPOCHS; is '1 A'"),
        (
            {"secret": ["Hub"]},
            "--secret: must be the name of a Secret, or NAME:KEY for one of its keys; is 'Hub'",
        ),
    ],
)
def test_a_wrong_option_is_one_sentence(options: dict[str, object], sentence: str) -> None:
    with pytest.raises(UserError) as error:
        settings.of_options(options)
    assert str(error.value) == sentence


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        (
            "--nodse 4",
            f"s.sh:2: #TRAINYARD: there is no option '--nodse' here (allowed: {ALLOWED}); "
            "did you mean --nodes?",
        ),
        ("4", f"s.sh:2: #TRAINYARD: there is no option '4' here (allowed: {ALLOWED})"),
        ("--nodes", "s.sh:2: --nodes: has no value"),
        ("--nodes 0", "s.sh:2: --nodes: must be greater than or equal to 1; is '0'"),
        (
            "--nodes four",
            "s.sh:2: --nodes: must be a valid integer, unable to parse string as an integer; is 'four'",
        ),
        ("--env 'A=1", "s.sh:2: #TRAINYARD: no closing quotation"),
        ("--env A", "s.sh:2: --env A: must be a variable and its value, such as EPOCHS=3"),
        ("--name " + "x" * 5000, "s.sh:2: #TRAINYARD: the line has more than 4096 characters"),
    ],
)
def test_a_wrong_line_of_a_head_is_told_with_its_place(line: str, sentence: str) -> None:
    with pytest.raises(UserError) as error:
        settings.of_head(["#!/bin/sh", f"#TRAINYARD {line}"], "s.sh")
    assert str(error.value) == sentence


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("gpus: 8\nnodse: 4\n", "did you mean nodes?"),
        ("gpus: 8\nnodes: 0\n", "f.yaml:2: nodes: must be greater than or equal to 1; is 0"),
        ("env:\n  EPOCHS: 3\n", "f.yaml:2: env.EPOCHS: must be a valid string; is 3"),
        ("nodes: 1\n---\nnodes: 2\n", "f.yaml:3: there may be only one document"),
        ("nodes: [\n", "f.yaml:2:1: the text ends where a value should be"),
    ],
)
def test_a_wrong_file_is_told_with_its_line(text: str, sentence: str) -> None:
    with pytest.raises(UserError) as error:
        settings.of_file(text, "f.yaml")
    assert sentence in str(error.value)


def test_of_several_variables_the_wrong_one_is_told_with_its_place() -> None:
    with pytest.raises(UserError) as error:
        settings.of_head(["#TRAINYARD --env A", "#TRAINYARD --env B=1"], "s.sh")
    assert str(error.value) == "s.sh:1: --env A: must be a variable and its value, such as EPOCHS=3"


def test_a_hostile_head_is_read_no_further_than_its_first_lines() -> None:
    lines = ["# padding"] * settings.MOST_LINES + ["#TRAINYARD --nodes 4"]
    assert said(settings.of_head(lines, "s.sh")) == {}


@pytest.mark.parametrize("options", [{"env": ["A=\udcff"]}, {"command": ["\udcff"]}, {"name": "\udcff"}])
def test_what_is_not_unicode_is_refused(options: dict[str, object]) -> None:
    with pytest.raises(UserError) as error:
        settings.of_options(options)
    assert str(error.value).isprintable()


def test_a_mistake_controls_no_terminal() -> None:
    with pytest.raises(UserError) as error:
        settings.of_options({"queue": "\x1b[31mred"})
    assert "\x1b" not in str(error.value)
