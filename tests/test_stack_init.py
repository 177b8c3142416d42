"""`make stack`: a stack is created, and its file stays as somebody has written it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[1]
SCRIPT = ".github/scripts/stack"
FILE = """# The stack.
config:
  trainyard:platform:
    a: &team {x: 1}
    b: *team
"""
PULUMI = """#!/bin/sh
case "$1 $2" in
"whoami --verbose") echo "Backend URL: $BACKEND"; exit ;;
"stack export") [ -n "$EXISTS" ] && printf '%s\\n' "$STATE"; exit ;;
esac
echo "$@" > "$CALLED"
while [ $# -gt 0 ]; do [ "$1" != --cwd ] || folder=$2; shift; done
cp "$folder/Pulumi.yaml" "$CALLED.project"
[ ! -f "$folder/Pulumi.prod.yaml" ] || cp "$folder/Pulumi.prod.yaml" "$CALLED.keys"
echo "$PULUMI_BACKEND_URL" > "$CALLED.backend"
[ -z "$CODE" ] || { echo "error: of Pulumi" >&2; exit "$CODE"; }
[ -z "$SALT" ] || echo "encryptionsalt: $SALT" > "$folder/Pulumi.prod.yaml"
"""


@pytest.fixture(params=["Makefile", "examples/site/Makefile"])
def clone(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    (tmp_path / "stacks").mkdir()
    (tmp_path / "stacks" / "Pulumi.prod.yaml").write_text(FILE)
    for name in (request.param, "Pulumi.yaml"):
        (tmp_path / Path(name).name).write_text((ROOT / name).read_text())
    (tmp_path / SCRIPT).parent.mkdir(parents=True)
    shutil.copy(ROOT / SCRIPT, tmp_path / SCRIPT)
    (tmp_path / "bin").mkdir()
    script = tmp_path / "bin" / "pulumi"
    script.write_text(PULUMI)
    script.chmod(0o755)
    return tmp_path


def make(clone: Path, *variables: str, salt: str = "", **fake: str) -> subprocess.CompletedProcess[str]:
    path = f"{clone / 'bin'}{os.pathsep}{os.environ['PATH']}"
    answers = {"SALT": salt, "BACKEND": "s3://states", "EXISTS": "", "STATE": "", "CODE": "", **fake}
    called = {"PATH": path, "CALLED": str(clone / "called"), "PULUMI_BACKEND_URL": ""}
    environment = {**os.environ, **called, **answers}
    command = ["make", "--no-print-directory", "stack", *variables]
    return subprocess.run(command, cwd=clone, env=environment, capture_output=True, text=True, check=False)


def test_a_stack_is_created_and_no_alias_of_its_file_is_expanded(clone: Path) -> None:
    provider = "awskms://alias/pulumi?region=eu-central-1"
    answer = make(clone, "STACK=prod", f"SECRETS={provider}", salt="v1:abc")
    assert answer.returncode == 0, answer.stderr
    file = (clone / "stacks" / "Pulumi.prod.yaml").read_text()
    assert file == f"{FILE}encryptionsalt: v1:abc\n"
    called = (clone / "called").read_text().split()
    assert (called[:3], called[-2:]) == (["stack", "init", "prod"], ["--secrets-provider", provider])


def test_a_stack_is_created_in_the_backend_and_the_project_that_the_site_names(clone: Path) -> None:
    with (clone / "Pulumi.yaml").open("a") as file:
        file.write("backend:\n  url: s3://states\n")
    assert make(clone, "STACK=prod").returncode == 0
    project = yaml.safe_load((clone / "called.project").read_text())
    assert (project["name"], project["backend"]) == ("trainyard", {"url": "s3://states"})
    assert "stackConfigDir" not in project, "Pulumi would write into a folder that is not there"


def test_what_pulumi_keeps_in_a_file_without_a_last_newline_gets_lines_of_its_own(clone: Path) -> None:
    file = clone / "stacks" / "Pulumi.prod.yaml"
    file.write_text(FILE.rstrip("\n"))
    assert make(clone, "STACK=prod", salt="v1:abc").returncode == 0
    assert file.read_text() == f"{FILE}encryptionsalt: v1:abc\n"


SALT = "encryptionsalt: v1:old\n"
KEY = "secretsprovider: awskms://a?region=b\nencryptedkey: c\n"


@pytest.mark.parametrize(
    ("lines", "variables", "provider"),
    [
        (SALT, (), "passphrase"),
        (SALT, ("SECRETS=passphrase",), "passphrase"),
        (KEY, (), "awskms://a?region=b"),
        (KEY, ("SECRETS=awskms://a?region=b",), "awskms://a?region=b"),
        ('secretsprovider: "gcpkms://a"  # ours\nencryptedkey: c\n', (), "gcpkms://a"),
    ],
)
def test_a_stack_whose_state_is_lost_is_created_with_the_keys_of_its_file_which_gets_no_others(
    clone: Path, lines: str, variables: tuple[str, ...], provider: str
) -> None:
    file = clone / "stacks" / "Pulumi.prod.yaml"
    file.write_text(lines + FILE)
    answer = make(clone, "STACK=prod", *variables, salt="v1:abc")
    assert answer.returncode == 0, answer.stderr
    assert (file.read_text(), (clone / "called.keys").read_text()) == (lines + FILE, lines)
    assert (clone / "called").read_text().split()[-2:] == ["--secrets-provider", provider]


@pytest.mark.parametrize(
    ("lines", "provider", "keys"),
    [
        (SALT, "passphrase", "encryptionsalt"),
        (KEY, "awskms://a?region=b", "secretsprovider encryptedkey"),
    ],
)
def test_no_other_provider_takes_the_place_of_that_of_a_files_keys(
    clone: Path, lines: str, provider: str, keys: str
) -> None:
    file = clone / "stacks" / "Pulumi.prod.yaml"
    file.write_text(lines + FILE)
    answer = make(clone, "STACK=prod", "SECRETS=awskms://other", salt="v1:abc")
    assert (answer.returncode, (clone / "called").exists(), file.read_text()) == (2, False, lines + FILE)
    assert answer.stderr.splitlines()[0] == (
        f"stacks/Pulumi.prod.yaml: already has Pulumi's keys, of the provider {provider}: leave SECRETS out. "
        f"For other keys, remove these lines first ({keys}), and encrypt each of its secrets anew afterwards"
    )


@pytest.mark.parametrize("lines", ["", SALT])
def test_a_stack_that_the_backend_has_is_not_created_again(clone: Path, lines: str) -> None:
    file = clone / "stacks" / "Pulumi.prod.yaml"
    file.write_text(lines + FILE)
    answer = make(clone, "STACK=prod", CODE="255", EXISTS="1")
    assert (answer.returncode, file.read_text()) == (2, lines + FILE)
    assert answer.stderr.splitlines()[:2] == [
        "error: of Pulumi",
        "The stack exists, so go on with make preview STACK=prod",
    ]


KMS = {"url": "awskms://a?region=b&context_c=d", "encryptedkey": "Zg=="}


@pytest.mark.parametrize(
    ("kind", "state", "lines"),
    [
        ("passphrase", {"salt": "v1:a=:v1:b"}, ["encryptionsalt: v1:a=:v1:b"]),
        ("cloud", KMS, [f"secretsprovider: {KMS['url']}", "encryptedkey: Zg=="]),
        ("service", {"url": "https://api.pulumi.com", "owner": "acme"}, []),
    ],
)
def test_the_keys_of_a_stack_that_the_backend_has_are_named_to_a_file_that_lacks_them(
    clone: Path, kind: str, state: dict[str, str], lines: list[str]
) -> None:
    resource = {"urn": "a", "outputs": {"salt": "of another"}}
    deployment = {"secrets_providers": {"type": kind, "state": state}, "resources": [resource]}
    exported = json.dumps({"version": 3, "deployment": deployment}, indent=4).replace("&", r"\u0026")
    answer = make(clone, "STACK=prod", CODE="255", EXISTS="1", STATE=exported)
    assert (clone / "stacks" / "Pulumi.prod.yaml").read_text() == FILE
    way_out = "stacks/Pulumi.prod.yaml: lacks the keys of the stack, without which Pulumi would make others. "
    named = [f"{way_out}Add these lines:", *lines] if lines else []
    expected = ["error: of Pulumi", *named, "The stack exists, so go on with make preview STACK=prod"]
    assert answer.stderr.splitlines()[: len(expected)] == expected


def test_a_stack_that_cannot_be_created_is_not_called_one_that_exists(clone: Path) -> None:
    answer = make(clone, "STACK=prod", CODE="255")
    assert (answer.returncode, "exists" in answer.stderr) == (2, False)
    assert (clone / "stacks" / "Pulumi.prod.yaml").read_text() == FILE


@pytest.mark.parametrize(
    ("backend", "absolute"),
    [
        ("file://.", "file://{}/."),
        ("file://../states?metadata=skip", "file://{}/../states?metadata=skip"),
        ("file:///srv/states", ""),
        ("file://~", ""),
        ("s3://states", ""),
    ],
)
def test_a_relative_folder_of_states_is_that_of_the_other_commands(
    clone: Path, backend: str, absolute: str
) -> None:
    assert make(clone, "STACK=prod", BACKEND=backend).returncode == 0
    assert (clone / "called.backend").read_text() == f"{absolute.format(clone)}\n"


def test_where_pulumi_keeps_nothing_in_the_file_it_stays_as_it_is(clone: Path) -> None:
    assert make(clone, "STACK=prod").returncode == 0
    assert (clone / "stacks" / "Pulumi.prod.yaml").read_text() == FILE


@pytest.mark.parametrize(
    ("variables", "says"),
    [
        ((), "Say which stack: make stack STACK=name"),
        (("STACK=lab",), "stacks/Pulumi.lab.yaml: there is no such file"),
    ],
)
def test_a_stack_without_a_file_is_not_created(clone: Path, variables: tuple[str, ...], says: str) -> None:
    answer = make(clone, *variables)
    assert (answer.returncode, (clone / "called").exists()) == (2, False)
    assert says in answer.stderr
