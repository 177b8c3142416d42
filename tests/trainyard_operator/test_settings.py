"""What the operator is told: a file, flags before it, and one message that names every mistake."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from trainyard_api.configuration import Configuration, Webhook
from trainyard_operator.core.admit import limits
from trainyard_operator.settings import SettingsError, load, load_policies, parse
from trainyard_policies.parameters import Parameters
from trainyard_policies.rule import Level
from trainyard_policies.settings import Levels, Policies

HEADER = "apiVersion: config.trainyard.dev/v1alpha1\nkind: Configuration\n"


@pytest.fixture(autouse=True)
def in_a_pod(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POD_NAMESPACE", "ours")


def written(folder: Path, text: str) -> str:
    file = folder / "c.yaml"
    file.write_text(text)
    return str(file)


def test_without_a_word_the_operator_does_what_it_does_in_a_pod() -> None:
    told = parse([])
    assert told == Configuration(namespace="ours")
    assert (told.webhook.enabled, told.retention, told.feature_gates.on) == (True, None, frozenset())


def test_the_limits_of_admission_are_those_of_the_core() -> None:
    assert limits.Limits(**Configuration().limits.model_dump()) == limits.DEFAULT


def test_a_file_says_all_that_there_is_to_say(tmp_path: Path) -> None:
    text = f"""{HEADER}
namespace: "n"
upstreamNamespace: u
clientConnection: {{kubeconfig: k, context: c}}
logging: {{format: json}}
leaderElection: {{identity: i, leaseDuration: 1m, renewDeadline: 40s, retryPeriod: 5s}}
controller: {{concurrency: 3}}
webhook: {{enabled: false, host: 127.0.0.2, port: 1, policies: p}}
metrics: {{host: 127.0.0.1, port: 0, authentication: true, securePort: 4}}
certManagement: {{folder: d}}
statusServer: {{host: 127.0.0.3, port: 2, qps: 2, burst: 3}}
featureGates: {{TrainJobStatus: true}}
limits: {{maxNodes: 5, maxTrainjobBytes: 2048, maxRuntimeBytes: 1024, maxJobsetBytes: 4096}}
queueHolds: JobSet
suspendedCondition: upstream
lastLines: 200
retention: {{afterFinished: 1d12h, maxFinishedPerNamespace: 7}}
"""
    told = parse(["--config", written(tmp_path, text)])
    assert told.model_dump(exclude={"api_version", "kind"}) == {
        "namespace": "n",
        "upstream_namespace": "u",
        "client_connection": {"kubeconfig": "k", "context": "c"},
        "logging": {"format": "json"},
        "leader_election": {
            "identity": "i",
            "lease_duration": "60s",
            "renew_deadline": "40s",
            "retry_period": "5s",
        },
        "controller": {"concurrency": 3},
        "webhook": {"enabled": False, "host": "127.0.0.2", "port": 1, "policies": "p"},
        "metrics": {"host": "127.0.0.1", "port": 0, "authentication": True, "secure_port": 4},
        "cert_management": {"folder": "d"},
        "status_server": {"host": "127.0.0.3", "port": 2, "qps": 2.0, "burst": 3},
        "feature_gates": {"train_job_status": True},
        "limits": {
            "max_nodes": 5,
            "max_trainjob_bytes": 2048,
            "max_runtime_bytes": 1024,
            "max_jobset_bytes": 4096,
        },
        "queue_holds": "JobSet",
        "suspended_condition": "upstream",
        "last_lines": 200,
        "retention": {"after_finished": "129600s", "max_finished_per_namespace": 7},
    }
    assert told.retention is not None
    assert told.retention.after_finished == 1.5 * 86400


def test_every_flag_goes_before_the_file(tmp_path: Path) -> None:
    flags = (
        "--kubeconfig k --context c --workers 3 --namespace n --upstream-namespace u "
        "--metrics-host 127.0.0.1 --metrics-port 0 --no-webhook --webhook-host 127.0.0.2 "
        "--webhook-port 1 --webhook-policies p --certificate-dir d --status-host 127.0.0.3 --status-port 2 "
        "--log-format json --feature-gates TrainJobStatus=true"
    )
    others = f"""{HEADER}
namespace: other
controller: {{concurrency: 9}}
webhook: {{enabled: true, port: 5}}
featureGates: {{TrainJobStatus: false}}
"""
    told = parse([*flags.split(), "--config", written(tmp_path, others)])
    assert told == parse(flags.split())
    assert told.model_dump(by_alias=True, exclude_defaults=True) == {
        "namespace": "n",
        "upstreamNamespace": "u",
        "clientConnection": {"kubeconfig": "k", "context": "c"},
        "logging": {"format": "json"},
        "controller": {"concurrency": 3},
        "webhook": {"enabled": False, "host": "127.0.0.2", "port": 1, "policies": "p"},
        "metrics": {"host": "127.0.0.1", "port": 0},
        "certManagement": {"folder": "d"},
        "statusServer": {"host": "127.0.0.3", "port": 2},
        "featureGates": {"TrainJobStatus": True},
    }


@dataclass(frozen=True)
class Case:
    id: str
    text: str
    message: str


CASES = [
    Case(
        id="an unknown key",
        text=f"{HEADER}webhook:\n  prot: 3\n",
        message="c.yaml:4: webhook.prot: there is no such key (allowed here: enabled, host, policies, port); "
        "did you mean port?",
    ),
    Case(
        id="an unknown feature gate",
        text=f"{HEADER}featureGates: {{TrainJobStats: true}}\n",
        message="c.yaml:3: featureGates.TrainJobStats: there is no such key (allowed here: TrainJobStatus); "
        "did you mean TrainJobStatus?",
    ),
    Case(
        id="a word that is not allowed",
        text=f"{HEADER}logging:\n  format: jsn\n",
        message="c.yaml:4: logging.format: must be one of auto, json, text; is 'jsn'; did you mean json?",
    ),
    Case(
        id="a text in the place of a number",
        text=f'{HEADER}controller:\n  concurrency: "5"\n',
        message="c.yaml:4: controller.concurrency: must be a valid integer; is '5'",
    ),
    Case(
        id="a duration without a unit",
        text=f"{HEADER}retention:\n  afterFinished: 5\n",
        message="c.yaml:4: retention.afterFinished: must be a duration such as 15s, 10m, 24h or 7d; is 5",
    ),
    Case(
        id="times that do not go together",
        text=f"{HEADER}leaderElection:\n  renewDeadline: 20s\n",
        message="c.yaml:3: leaderElection: must have leaseDuration > renewDeadline > retryPeriod > 0s",
    ),
    Case(
        id="a value in the place of a section",
        text=f"{HEADER}webhook: 5\n",
        message="c.yaml:3: webhook: must be a mapping; is 5",
    ),
    Case(
        id="another kind",
        text="apiVersion: config.trainer.kubeflow.org/v1alpha1\nkind: Configuration\n",
        message="c.yaml:1: apiVersion: must be one of config.trainyard.dev/v1alpha1; "
        "is 'config.trainer.kubeflow.org/v1alpha1'; did you mean config.trainyard.dev/v1alpha1?",
    ),
    Case(
        id="no kind",
        text="apiVersion: config.trainyard.dev/v1alpha1\n",
        message="c.yaml:1: kind: is required; it is Configuration",
    ),
    Case(id="nothing", text="", message="c.yaml:1: must hold one YAML document, holds 0"),
    Case(id="no mapping", text="- 1\n", message="c.yaml:1:1: a document must be an object"),
    Case(id="no YAML", text="{", message="c.yaml:1:2: the text ends where a value should be"),
]


def test_levels_and_parameters_of_the_rules_are_a_file_of_their_own(tmp_path: Path) -> None:
    file = written(tmp_path, "levels: {trainJobs: {image-tag: mandatory}}\nparameters: {maxNodes: 8}\n")
    told = load_policies(Webhook(policies=file))
    assert told is not None
    assert told.levels.train_jobs == {"image-tag": "mandatory"}
    assert told.parameters.max_nodes == 8
    assert load_policies(Webhook()) is None
    assert load_policies(Webhook(enabled=False, policies=file)) is None


def test_a_mistake_in_them_is_named_with_its_line_too(tmp_path: Path) -> None:
    file = written(tmp_path, "levels:\n  runtimes: {image-tag: mandatry}\nparameters:\n  maxNode: 8\n")
    with pytest.raises(SettingsError) as caught:
        load_policies(Webhook(policies=file))
    first, second = str(caught.value).splitlines()
    assert first.startswith(f"{file}:2: levels.runtimes.image-tag: must be one of ")
    assert second.startswith(f"{file}:4: parameters.maxNode: there is no such key")


def test_a_rule_that_the_image_lacks_is_warned_of_and_every_other_setting_applies(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    levels = "levels:\n  runtimes:\n    cost-center: mandatory\n    image-tag: advisory\n"
    file = written(tmp_path, f"{levels}parameters: {{maxNodes: 8}}\n")
    assert load_policies(Webhook(policies=file)) == Policies(
        levels=Levels(runtimes={"image-tag": Level.ADVISORY}), parameters=Parameters(max_nodes=8)
    )
    assert caplog.messages == [
        f"{file}:3: levels.runtimes: this image has no rule 'cost-center', so the webhooks do not apply it: "
        "build the operator's image with it (docs/own-repository.md)"
    ]


@pytest.mark.parametrize("levels", ["[]", "{runtimes: []}", "{runtime: {}}"])
def test_levels_of_another_shape_are_a_mistake(tmp_path: Path, levels: str) -> None:
    with pytest.raises(SettingsError, match="levels"):
        load_policies(Webhook(policies=written(tmp_path, f"levels: {levels}\n")))


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_a_mistake_is_named_with_its_line_and_the_way_out(case: Case, tmp_path: Path) -> None:
    with pytest.raises(SettingsError) as caught:
        load(written(tmp_path, case.text), {"webhook.port": ("--webhook-port", 1)})
    assert str(caught.value) == f"{tmp_path}/{case.message}"


def test_all_mistakes_are_named_at_once_each_where_it_was_made(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = written(tmp_path, f"{HEADER}metrics: {{port: 1, hots: x}}\n")
    with pytest.raises(SystemExit) as caught:
        parse(["--config", file, "--webhook-port", "70000", "--feature-gates", "Foo=true"])
    assert caught.value.code == 2
    assert sorted(capsys.readouterr().err.splitlines()) == [
        "--feature-gates: there is no such key (allowed here: TrainJobStatus)",
        "--webhook-port: must be less than or equal to 65535; is 70000",
        f"{file}:3: metrics.hots: there is no such key (allowed here: authentication, host, port, "
        "securePort); did you mean host?",
    ]


@pytest.mark.parametrize(
    "flags",
    [
        ["--workers", "0"],
        ["--workers", "many"],
        ["--nonsense"],
        ["--feature-gates", "TrainJobStatus=perhaps"],
        ["--config", "/nowhere"],
    ],
)
def test_a_wrong_flag_is_exit_code_2(flags: list[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        parse(flags)
    assert caught.value.code == 2
