"""`trainyard lint`: what it reads, what it says, where, and the exit codes."""

import errno
import json
import os
import subprocess
from datetime import date
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from tests.support.answers import answered
from tests.support.clones import clone_at
from tests.support.rule_examples import HERE
from trainyard_api.places import SHIPPED
from trainyard_cli.commands import lint
from trainyard_cli.commands.lint import Format
from trainyard_policies import rules
from trainyard_policies.rule import Level

TODAY = date(2026, 11, 21)
GOOD = (HERE / "manifests" / "runtime.yaml").read_text()
LATEST = GOOD.replace("train:1@sha256:" + "0" * 64, "train:latest")
PRIVILEGED = GOOD.replace(
    "                      resources:\n",
    "                      securityContext:\n"
    "                        privileged: true # for the driver\n"
    "                      resources:\n",
)


def answer(*paths: Path, **options: Any) -> tuple[int, str, str]:
    return answered(lint.run, paths, today=TODAY, **options)


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def written(text: str, name: str = "runtime.yaml") -> Path:
    path = Path(name)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def test_the_shipped_catalog_has_nothing_mandatory():
    code, out, err = answer(style=Format.JSON)
    found = json.loads(out)
    assert (code, {f["level"] for f in found["findings"]} - {"advisory", "excepted"}) == (0, set()), out
    assert found["workloads"] >= 2
    assert "0 mandatory" in err


@pytest.mark.parametrize(
    "name", ["deepspeed", "digits", "lightgbm", "mlx", "mpi", "paddle", "tensorflow", "tensorflow-ps"]
)
def test_the_examples_have_nothing_mandatory(name: str):
    assert answer(SHIPPED.root / "examples" / name / "trainjob.yaml")[0] == 0


def test_a_good_file_says_nothing(here: Path):
    assert answer(written(GOOD)) == (
        0,
        "",
        "1 runtimes and TrainJobs, 0 other objects: 0 mandatory, 0 advisory, 0 excepted\n",
    )


def test_text_names_the_place_the_rule_and_the_way_out(here: Path):
    code, out, _ = answer(written(PRIVILEGED))
    assert (code, out) == (
        1,
        "runtime.yaml:29:25: mandatory: spec.template.spec.replicatedJobs[0].template.spec.template.spec"
        ".containers[0].securityContext.privileged: must not be true [privileges]\n"
        "    Remove the field. If a device needs a capability, such as IPC_LOCK for RDMA, make an "
        "exception in a runtime of the catalog. Or run lint --fix.\n",
    )


def test_json_has_everything(here: Path):
    code, out, _ = answer(written(LATEST), style=Format.JSON)
    [tag, digest] = json.loads(out)["findings"]
    assert code == 1
    assert tag == {
        "file": "runtime.yaml",
        "line": 27,
        "column": 23,
        "rule": "image-tag",
        "level": "mandatory",
        "severity": "high",
        "subject": "ClusterTrainingRuntime good",
        "field": "spec.template.spec.replicatedJobs[0].template.spec.template.spec.containers[0].image",
        "message": "spec.template.spec.replicatedJobs[0].template.spec.template.spec.containers[0].image: "
        "must not have the tag latest, which changes over time",
        "remedy": "Use the tag of a version, or better a digest.",
        "fixable": False,
        "exception": None,
        "docs": "docs/policies/rules.md#image-tag",
    }
    assert (digest["rule"], digest["level"]) == ("image-digest", "advisory")


def test_github_annotates_the_line_of_the_path_in_the_repository(here: Path):
    subprocess.run(["git", "init", "--quiet", "."], check=True)
    path = written(LATEST, "runtimes/a,b/50%.yaml")
    os.chdir("runtimes")
    _, out, _ = answer(Path("a,b/50%.yaml"), style=Format.GITHUB)
    assert path.name == "50%.yaml"
    assert out.splitlines()[0] == (
        "::error file=runtimes/a%2Cb/50%25.yaml,line=27,col=23,title=image-tag (mandatory)"
        "::spec.template.spec.replicatedJobs[0].template.spec.template.spec.containers[0].image: "
        "must not have the tag latest, which changes over time. "
        "Use the tag of a version, or better a digest."
    )


def test_gitlab_gets_the_severity_of_what_refuses_and_a_fingerprint_that_outlives_a_move(here: Path):
    _, out, _ = answer(written(LATEST, "a b.yaml"), style=Format.GITLAB)
    tag, digest = json.loads(out)
    assert tag == {
        "description": "spec.template.spec.replicatedJobs[0].template.spec.template.spec.containers[0]"
        ".image: must not have the tag latest, which changes over time. "
        "Use the tag of a version, or better a digest.",
        "check_name": "image-tag",
        "fingerprint": tag["fingerprint"],
        "severity": "critical",
        "location": {"path": "a b.yaml", "lines": {"begin": 27}},
    }
    assert (digest["check_name"], digest["severity"]) == ("image-digest", "info")
    assert tag["fingerprint"] != digest["fingerprint"]
    _, moved, _ = answer(written(f"# A line more.\n{LATEST}", "a b.yaml"), style=Format.GITLAB)
    assert [one["location"]["lines"]["begin"] for one in json.loads(moved)] == [28, 28]
    assert [one["fingerprint"] for one in json.loads(moved)] == [tag["fingerprint"], digest["fingerprint"]]


def test_two_findings_that_say_the_same_have_two_fingerprints(here: Path):
    _, out, _ = answer(written(f"{LATEST}---\n{LATEST}"), style=Format.GITLAB)
    found = [one["fingerprint"] for one in json.loads(out) if one["check_name"] == "image-tag"]
    assert len(found) == len(set(found)) == 2


def test_junit_has_a_case_for_each_finding_and_for_each_rule_that_found_nothing(here: Path):
    _, out, _ = answer(written(LATEST), style=Format.JUNIT)
    suite = ElementTree.fromstring(out)
    cases = list(suite)
    assert suite.attrib == {
        "name": "trainyard",
        "tests": str(len(rules.ALL)),
        "failures": "1",
        "skipped": "0",
        "errors": "0",
    }
    tag = cases[0]
    assert tag.attrib == {
        "classname": "trainyard",
        "name": "image-tag: runtime.yaml:27",
        "file": "runtime.yaml",
    }
    [failure] = tag
    assert failure.tag == "failure"
    assert "must not have the tag latest" in failure.attrib["message"]
    assert failure.text is not None
    assert failure.text.startswith("runtime.yaml:27: spec.")
    assert failure.text.endswith("\nUse the tag of a version, or better a digest.")
    [advice] = cases[1]
    assert advice.tag == "system-out"
    assert {case.attrib["name"] for case in cases[2:]} == {
        rule.id for rule in rules.ALL if rule.id not in ("image-tag", "image-digest")
    }
    assert [list(case) for case in cases[2:]] == [[]] * len(cases[2:])


def test_junit_holds_whatever_a_file_says(here: Path):
    path = written(PRIVILEGED.replace("privileged: true", 'capabilities: {add: ["\\e]]>&<b"]}'))
    _, out, _ = answer(path, style=Format.JUNIT)
    assert "adds \N{REPLACEMENT CHARACTER}]]>&<b" in str(ElementTree.fromstring(out)[0][0].text)


def test_a_name_that_is_no_text_is_in_every_format(here: Path):
    name = os.fsdecode(b"\xff\x01.yaml")
    path = written(LATEST, name)
    answers = {style: answer(path, style=style) for style in Format}
    assert {style: code for style, (code, _, _) in answers.items()} == dict.fromkeys(Format, 1)
    [sarif, gitlab, junit] = (answers[style][1] for style in (Format.SARIF, Format.GITLAB, Format.JUNIT))
    place = json.loads(sarif)["runs"][0]["results"][0]["locations"][0]["physicalLocation"]
    assert place["artifactLocation"] == {"uri": "%FF%01.yaml"}
    assert json.loads(gitlab)[0]["location"]["path"] == name
    assert str(ElementTree.fromstring(junit)[0][0].text).startswith("\ufffd\ufffd.yaml:27: spec.")


def test_junit_skips_what_is_excepted(here: Path):
    _, out, _ = answer(written(excepted("until=2027-06-01; the driver's test needs it")), style=Format.JUNIT)
    suite = ElementTree.fromstring(out)
    assert (suite.attrib["failures"], suite.attrib["skipped"]) == ("0", "1")
    [skipped] = suite[0]
    assert skipped.tag == "skipped"
    assert "Excepted until" in skipped.attrib["message"]


def test_sarif_has_every_rule_and_a_result_with_its_region(here: Path):
    _, out, _ = answer(written(LATEST, "a b.yaml"), style=Format.SARIF)
    log = json.loads(out)
    [run] = log["runs"]
    assert log["version"] == "2.1.0"
    assert [rule["id"] for rule in run["tool"]["driver"]["rules"]] == [rule.id for rule in rules.ALL]
    assert run["results"][0] == {
        "ruleId": "image-tag",
        "ruleIndex": list(rules.BY_ID).index("image-tag"),
        "level": "error",
        "message": {
            "text": "spec.template.spec.replicatedJobs[0].template.spec.template.spec.containers[0].image: "
            "must not have the tag latest, which changes over time. "
            "Use the tag of a version, or better a digest."
        },
        "locations": [
            {
                "physicalLocation": {
                    "artifactLocation": {"uri": "a%20b.yaml"},
                    "region": {"startLine": 27, "startColumn": 23},
                },
                "logicalLocations": [
                    {
                        "fullyQualifiedName": "spec.template.spec.replicatedJobs[0].template.spec.template"
                        ".spec.containers[0].image"
                    }
                ],
            }
        ],
    }


def excepted(annotation: str) -> str:
    return PRIVILEGED.replace(
        "  labels:\n", f'  annotations:\n    policy.trainyard.dev/privileges: "{annotation}"\n  labels:\n', 1
    )


def test_an_exception_lets_a_finding_through_and_shows_it(here: Path):
    path = written(excepted("until=2026-11-21; the driver's test needs it"))
    code, out, err = answer(path)
    assert code == 0
    assert out.endswith("[privileges]\n    Excepted until 2026-11-21: the driver's test needs it\n")
    assert err.endswith("0 mandatory, 1 advisory, 1 excepted\n"), "it ends today"
    _, result = json.loads(answer(path, style=Format.SARIF)[1])["runs"][0]["results"]
    assert result["suppressions"] == [
        {"kind": "inSource", "justification": "until 2026-11-21: the driver's test needs it"}
    ]


@pytest.mark.parametrize(
    ("text", "note"),
    [
        (excepted("until=2026-11-20; soon"), "the exception ended on 2026-11-20"),
        (
            excepted("until=2027-11-20; mine").replace("ClusterTrainingRuntime", "TrainingRuntime"),
            "the exception is invalid: a TrainingRuntime may not make one",
        ),
    ],
    ids=["ended", "not by review"],
)
def test_an_exception_that_does_not_hold_says_why(here: Path, text: str, note: str):
    code, out, _ = answer(written(text))
    assert (code, f"must not be true ({note}) [privileges]" in out) == (1, True), out


def test_fix_repairs_the_file_and_keeps_its_comments(here: Path):
    path = written(PRIVILEGED)
    code, out, err = answer(path, fix=True)
    assert (code, out) == (0, "")
    assert path.read_text() == PRIVILEGED.replace("privileged: true", "privileged: false")
    assert err.startswith("runtime.yaml:29: securityContext.privileged set to false [privileges]\n")


@pytest.mark.parametrize(
    ("right", "wrong", "mended", "said"),
    [
        (
            "  mlPolicy:\n    numNodes: 1",
            "  mlpolicy: # four\n    numNodes: 4",
            "  mlPolicy: # four\n    numNodes: 4",
            "9: spec.mlpolicy renamed to mlPolicy [well-formed]",
        ),
        (
            "  labels:\n    trainer",
            "  lables:\n    trainer",
            "  labels:\n    trainer",
            "6: metadata.lables renamed to labels [well-formed]",
        ),
        (
            "kubeflow.org/framework: torch",
            "kubeflow.org/framwork: torchtune",
            "kubeflow.org/framework: torchtune",
            "7: metadata.labels[trainer.kubeflow.org/framwork] renamed to trainer.kubeflow.org/framework "
            "[framework-label]",
        ),
        ("limits:", '"limit":', "limits:", "29: resources.limit renamed to limits [well-formed]"),
    ],
    ids=["a policy", "labels", "a label", "limits"],
)
def test_fix_renames_what_is_misspelt_keeps_its_value_and_adds_nothing_beside_it(
    here: Path, right: str, wrong: str, mended: str, said: str
):
    path = written(GOOD.replace(right, wrong, 1))
    fine = "1 runtimes and TrainJobs, 0 other objects: 0 mandatory, 0 advisory, 0 excepted\n"
    assert answer(path, fix=True) == (0, "", f"runtime.yaml:{said}\n{fine}")
    assert path.read_text() == GOOD.replace(right, mended, 1)
    assert answer(path, fix=True) == (0, "", fine)
    assert path.read_text() == GOOD.replace(right, mended, 1)


def test_fix_does_not_make_green_what_it_cannot_be_sure_of(here: Path):
    text = GOOD.replace("  mlPolicy:\n", "  policy:\n")
    path = written(text)
    code, out, _ = answer(path, fix=True)
    assert (code, "spec.policy: there is no such field; did you mean mlPolicy? [well-formed]" in out) == (
        1,
        True,
    ), out
    assert "  policy:\n    numNodes: 1\n" in path.read_text()


def test_fix_keeps_the_ends_of_lines(here: Path):
    path = written("")
    path.write_bytes(PRIVILEGED.replace("\n", "\r\n").encode())
    assert answer(path, fix=True)[0] == 0
    assert path.read_bytes() == (
        PRIVILEGED.replace("privileged: true", "privileged: false").replace("\n", "\r\n").encode()
    )


def test_fix_keeps_the_rights_of_the_file_and_a_link_to_it(here: Path):
    path = written(PRIVILEGED)
    path.chmod(0o640)
    Path("link.yaml").symlink_to(path)
    assert answer(Path("link.yaml"), fix=True)[0] == 0
    assert Path("link.yaml").readlink() == path
    assert path.read_text() == PRIVILEGED.replace("privileged: true", "privileged: false")
    assert path.stat().st_mode & 0o777 == 0o640


def test_fix_on_a_full_disk_leaves_the_file_as_it_was(here: Path, monkeypatch: pytest.MonkeyPatch):
    path = written(PRIVILEGED)

    def full(file: Path, *_: Any, **__: Any) -> int:
        file.open("w").close()
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(Path, "write_text", full)
    code, _, err = answer(path, fix=True)
    assert "runtime.yaml: cannot be written: No space left on device" in err
    assert (code, path.read_text(), list(here.iterdir())) == (2, PRIVILEGED, [here / path])


def test_fix_leaves_what_is_excepted(here: Path):
    text = excepted("until=2026-11-21; the driver's test needs it")
    path = written(text)
    assert answer(path, fix=True)[0] == 0
    assert path.read_text() == text


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: [", "f.yaml:1:5: the text ends where a value should be\n"),
        (
            "apiVersion: v1\nkind: List\nitems: [7]\n",
            "f.yaml:3:9: an item of a List must be an object\n",
        ),
        (
            "kind: TrainJobs\napiVersion: trainer.kubeflow.org/v1alpha1\n",
            "f.yaml:1: trainer.kubeflow.org/v1alpha1 has no kind TrainJobs "
            "(it has ClusterTrainingRuntime, TrainingRuntime, TrainJob); did you mean TrainJob?\n",
        ),
        (
            "kind: TrainJob\napiVersion: trainer.kubeflow.org/v1\n",
            "f.yaml:2: trainer.kubeflow.org/v1 is unknown: use trainer.kubeflow.org/v1alpha1\n",
        ),
        ("a: " + "x" * (3 << 20), "f.yaml:1:1: larger than 3 MiB\n"),
    ],
    ids=["broken", "no object", "no such kind", "no such version", "too big"],
)
def test_what_cannot_be_linted_says_where_and_the_rest_is_linted(here: Path, text: str, message: str):
    code, out, err = answer(written(text, "f.yaml"), written(LATEST))
    assert (code, err.startswith(message), "[image-tag]" in out) == (2, True, True), err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"paths": ["none.yaml"]}, "none.yaml: no such file or folder\n"),
        ({"paths": ["/dev/null"]}, "/dev/null: neither a file nor a folder\n"),
        ({"paths": ["."], "since": "main"}, "git rev-parse: fatal: not a git repository"),
        ({"paths": ["."], "since": "--all"}, "--since --all: must name a commit, a branch or a tag\n"),
        (
            {"paths": ["."], "stack": "none"},
            "is in no site, for neither it nor a folder",
        ),
    ],
    ids=str,
)
def test_what_cannot_be_asked(here: Path, options: dict[str, Any], message: str):
    paths = [Path(path) for path in options.pop("paths")]
    code, out, err = answer(*paths, **options)
    assert (code, out, message in err) == (2, "", True), err


def listed(text: str) -> str:
    """The object in a text as the second item of a List, as `kubectl get -o yaml` has it."""
    item = "".join(f"  {line}" for line in text.splitlines(keepends=True)).replace("  ", "- ", 1)
    return f"apiVersion: v1\nkind: List\nitems:\n- {{apiVersion: v1, kind: ConfigMap}}\n{item}"


def test_the_items_of_a_list_are_linted_and_repaired_where_they_stand(here: Path):
    path = written(listed(PRIVILEGED))
    code, out, err = answer(path)
    line = 1 + next(n for n, text in enumerate(path.read_text().splitlines()) if "privileged" in text)
    assert (code, f"runtime.yaml:{line}:" in out) == (1, True), out + err
    assert err.endswith("1 runtimes and TrainJobs, 1 other objects: 1 mandatory, 0 advisory, 0 excepted\n")
    text = path.read_text()
    assert answer(path, fix=True)[0] == 0
    assert path.read_text() == text.replace("privileged: true", "privileged: false")


def test_a_job_inside_another_object_is_told_where_it_stands(here: Path):
    inside = {"apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "TrainJob"}
    wrapper = {"apiVersion": "v1beta2", "kind": "AppWrapper", "spec": {"components": [{"template": inside}]}}
    code, out, err = answer(written(json.dumps(wrapper)))
    assert (code, out) == (0, "")
    said = "a TrainJob stands inside AppWrapper, where nobody looks: put it into a document of its own"
    assert err.startswith(f"runtime.yaml:1: {said}\n")


def test_objects_of_other_kinds_are_counted_and_what_is_no_object_is_left_out(here: Path):
    text = "a: 1\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n"
    code, out, err = answer(written(text))
    assert (code, out, err.split(":")[0]) == (0, "", "0 runtimes and TrainJobs, 1 other objects")


def test_a_folder_is_searched_without_links_and_hidden_folders(here: Path):
    written(LATEST, "in/a.yml")
    written(LATEST, "in/.hidden/b.yaml")
    written(LATEST, "in/c.txt")
    Path("in/d.yaml").symlink_to("a.yml")
    Path("in/loop").symlink_to(".")
    _, out, _ = answer(Path("in"), Path("in/a.yml"), style=Format.JSON)
    assert {f["file"] for f in json.loads(out)["findings"]} == {"in/a.yml"}
    _, out, _ = answer(Path("in/d.yaml"), style=Format.JSON)
    assert {f["file"] for f in json.loads(out)["findings"]} == {"in/d.yaml"}


def test_since_lints_what_has_changed_and_all_of_it_with_a_stack(here: Path):
    def git(*arguments: str) -> None:
        me = ["-c", "user.name=a", "-c", "user.email=a@example.com"]
        subprocess.run(["git", *me, *arguments], check=True, capture_output=True)

    git("init", "--quiet", "--initial-branch", "main")
    written(LATEST, "runtimes/old.yaml")
    written(GOOD, "runtimes/changed.yaml")
    git("add", ".")
    git("commit", "-m", "base")
    git("checkout", "-b", "change")
    written(LATEST.replace("name: good", "name: changed"), "runtimes/changed.yaml")
    git("commit", "-am", "change")
    written(LATEST.replace("name: good", "name: new"), "runtimes/new ü.yaml")

    def files() -> set[str]:
        _, out, _ = answer(Path("runtimes"), since="main", style=Format.JSON)
        return {f["file"] for f in json.loads(out)["findings"]}

    assert files() == {"runtimes/changed.yaml", "runtimes/new ü.yaml"}
    written("config: {}\n", "stacks/Pulumi.prod.yaml")
    assert files() == {"runtimes/changed.yaml", "runtimes/new ü.yaml", "runtimes/old.yaml"}


def test_a_stack_sets_levels_and_parameters(here: Path):
    stack = {
        "operator": {"image": "docker.io/trainyard/operator:1"},
        "policies": {
            "levels": {"runtimes": {"image-tag": "advisory", "image-digest": "disabled"}},
            "parameters": {"registries": ["registry.example.com"]},
        },
    }
    written(json.dumps({"config": {"trainyard:platform": stack}}), "stacks/Pulumi.mine.yaml")
    clone_at(here)
    _, _, err = answer(written(LATEST), stack="none")
    assert err == "stacks/Pulumi.none.yaml:1: No such file or directory\n"
    code, out, _ = answer(written(LATEST), stack="mine", style=Format.JSON)
    levels = [(f["rule"], f["level"]) for f in json.loads(out)["findings"]]
    assert (code, levels) == (1, [("image-registry", "mandatory"), ("image-tag", Level.ADVISORY)])


def test_explain_says_all_about_a_rule():
    assert answered(lint.explain, "node-bounds") == (
        0,
        "node-bounds: No more nodes, and processes on each, than the platform allows.\n\nWhy:        A job "
        "that requests more nodes than can exist waits forever, and keeps its quota.\nWay out:    "
        "Request at least 1 and no more than the platform allows, also as parallelism of other "
        "ReplicatedJobs, or ask your platform team to allow more (policies.parameters.maxNodes and "
        "maxProcessesPerNode in the stack file).\nSeverity:   "
        "medium\nLevels:     runtimes: mandatory, trainJobs: mandatory\nParameters: maxNodes, "
        "maxProcessesPerNode\n--fix:      leaves it to you\nException:  policy.trainyard.dev/node-bounds: "
        '"until=YYYY-MM-DD; reason"\nMore:       docs/policies/rules.md#node-bounds\n',
        "",
    )
    code, out, err = answered(lint.explain, "node-bound")
    assert (code, out) == (2, "")
    assert err.endswith("did you mean node-bounds?\n")


JOB = """apiVersion: trainer.kubeflow.org/v1alpha1
kind: TrainJob
metadata: {name: job}
spec:
  runtimeRef: {name: old}
"""


@pytest.fixture
def catalog(here: Path) -> Path:
    """A catalog of one runtime, which is deprecated."""
    going = "  labels:\n    trainer.kubeflow.org/support: deprecated\n"
    written(
        GOOD.replace("  labels:\n", going, 1).replace("name: good", "name: old"), "runtimes/torch/old.yaml"
    )
    clone_at(here)
    return here / "runtimes"


def test_users_of_a_deprecated_runtime_of_the_catalog_are_warned(catalog: Path):
    code, out, _ = answer(written(JOB, "job.yaml"))
    [finding] = [line for line in out.splitlines() if "[deprecated-runtime]" in line]
    assert (code, finding) == (
        0,
        "job.yaml:5:16: advisory: spec.runtimeRef.name: should be another runtime: "
        "ClusterTrainingRuntime old is deprecated [deprecated-runtime]",
    )


def test_a_runtime_of_the_catalog_that_is_linted_too_is_looked_at_once(catalog: Path):
    _, out, _ = answer(catalog, written(JOB, "job.yaml"))
    assert (out.count("[deprecated-runtime]"), out.count("[unique-names]")) == (1, 0)


def test_a_digest_that_the_catalog_knows_need_not_stand_in_the_runtime(here: Path, catalog: Path):
    tagged = GOOD.replace("@sha256:" + "0" * 64, "")
    runtime = written(tagged)
    assert "[image-digest]" in answer(runtime)[1]
    digest = "sha256:" + "1" * 64
    name = tagged.partition("image: ")[2].partition(":1")[0]
    written(f"images:\n  - {{name: {name}, tag: '1', digest: {digest}}}\n", "runtimes/images.yaml")
    assert "[image-digest]" not in answer(runtime)[1]


def test_a_runtime_that_a_stack_leaves_out_need_not_fit_it(here: Path):
    stack = (
        "config:\n  trainyard:platform:\n    operator: {image: docker.io/trainyard/operator:1}\n"
        "    policies: {parameters: {maxNodes: 1}}\n    runtimes: {good: {enabled: %s}}\n"
    )
    clone_at(here)
    runtime = written(GOOD.replace("numNodes: 1", "numNodes: 2"))
    for enabled, code in (("true", 1), ("false", 0)):
        written(stack % enabled, "stacks/Pulumi.small.yaml")
        assert answer(runtime, stack="small")[0] == code


def test_what_a_stack_puts_into_a_runtime_of_the_catalog_is_told_at_the_stacks_line(catalog: Path):
    stack = (
        "config:\n  trainyard:platform:\n    operator: {image: docker.io/trainyard/operator:1}\n"
        "    runtimes:\n"
        "      old:\n        image: ghcr.io/kubeflow/train:latest\n        resources: {memory: 900Ei}\n"
    )
    written(stack, "stacks/Pulumi.mine.yaml")
    code, out, _ = answer(catalog, stack="mine", style=Format.JSON)
    found = [(f["rule"], f["line"], f["message"].rpartition(": ")[2]) for f in json.loads(out)["findings"]]
    assert {f["file"] for f in json.loads(out)["findings"]} == {"stacks/Pulumi.mine.yaml"}
    too_much = "must be at most 128Ti on this platform, is 900Ei"
    assert (code, found) == (
        1,
        [
            ("image-tag", 6, "must not have the tag latest, which changes over time"),
            ("image-digest", 6, "should be named by its digest, is ghcr.io/kubeflow/train:latest"),
            ("resource-bounds", 7, too_much),
        ],
    )
    assert answer(catalog)[0] == 0
    results = json.loads(answer(catalog, stack="mine", style=Format.SARIF)[1])["runs"][0]["results"]
    assert [result["ruleId"] for result in results] == ["image-tag", "image-digest", "resource-bounds"]


def test_fix_writes_no_tolerations_for_a_pool_without_quota(catalog: Path):
    accelerator = {"type": "h100", "count": 8}
    pool = {"provider": "kwok", "nodes": 8, "machine": {"cpu": "64", "memory": "1Ti"}}
    stack = {
        "operator": {"image": "docker.io/trainyard/operator:1"},
        "kueue": {"enabled": True},
        "queues": {"clusterQueues": {"team": {}}},
        "nodePools": {"h100": {**pool, "accelerator": accelerator}},
        "accelerators": {"nvidia": {"devicePlugin": "shipped"}},
    }
    written(json.dumps({"config": {"trainyard:platform": stack}}), "stacks/Pulumi.mine.yaml")
    path = catalog / "torch" / "old.yaml"
    text = path.read_text().replace("limits:\n", 'limits:\n                          nvidia.com/gpu: "8"\n')
    path.write_text(text)
    code, out, err = answer(path, stack="mine", fix=True, style=Format.JSON)
    refused = [f for f in json.loads(out)["findings"] if f["level"] == "mandatory"]
    said = (
        "nodePools.h100: does not fit 1 runtime (old): no cluster queue has quota for its 8 nodes, so no job "
        "of a queue can use them: give the pool to a queue with nodePools.h100.quota"
    )
    assert (code, [(f["file"], f["message"]) for f in refused]) == (1, [("stacks/Pulumi.mine.yaml", said)]), (
        err
    )
    assert path.read_text() == text


def test_what_a_stack_cannot_install_is_said_beside_the_rest(catalog: Path):
    path = catalog / "torch" / "old.yaml"
    path.write_text(path.read_text().replace("runAsNonRoot: true", "runAsUser: 1000"))
    stack = {
        "operator": {"image": "docker.io/trainyard/operator:1"},
        "cluster": {"distribution": "openshift"},
    }
    written(json.dumps({"config": {"trainyard:platform": stack}}), "stacks/Pulumi.mine.yaml")
    code, out, err = answer(catalog, written(LATEST), stack="mine", style=Format.JSON)
    rules_of = [f["rule"] for f in json.loads(out)["findings"]]
    assert (code, rules_of) == (2, ["image-tag", "image-digest"])
    assert err.splitlines()[:2] == [
        "runtimes that do not run on this cluster:",
        "  trainyard:platform.runtimes.old: it needs the user 1000, and cluster.distribution openshift "
        "assigns users: leave it out with `enabled: false`",
    ]


@pytest.mark.parametrize(
    ("path", "text", "said"),
    [
        (
            "torch/new.yaml",
            GOOD,
            "5:3: mandatory: metadata.name: must be the file's name, new, and is good [well-formed]",
        ),
        (
            "jax/good.yaml",
            GOOD,
            "7:5: mandatory: metadata.labels[trainer.kubeflow.org/framework]: must be the folder's name, "
            "jax, and is torch [well-formed]",
        ),
        (
            "torch/good.yaml",
            GOOD.replace("ClusterTrainingRuntime", "TrainingRuntime"),
            "3:1: mandatory: kind: must be ClusterTrainingRuntime, and is TrainingRuntime [well-formed]",
        ),
        ("torch/good.yaml", "", "1:1: mandatory: must hold one runtime, and holds 0 [well-formed]"),
        (
            "torch/good.yaml",
            f"{GOOD}---\n{GOOD.replace('name: good', 'name: other')}",
            "1:1: mandatory: must hold one runtime, and holds 2 [well-formed]",
        ),
        (
            "deepspeed/old.yaml",
            GOOD.replace("name: good", "name: old").replace("framework: torch", "framework: deepspeed"),
            "5:3: mandatory: metadata.name: must be unique in the catalog: runtimes/torch/old.yaml "
            "has it too [well-formed]",
        ),
    ],
    ids=["its name", "its folder", "its kind", "empty", "two", "a name that is taken"],
)
def test_a_file_of_the_catalog_holds_what_its_place_says(catalog: Path, path: str, text: str, said: str):
    code, out, _ = answer(written(text, f"runtimes/{path}"))
    assert (code, f"runtimes/{path}:{said}" in out.splitlines()) == (1, True), out
