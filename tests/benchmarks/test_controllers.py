"""What the compared controllers are started with."""

from dataclasses import replace
from pathlib import Path

from benchmarks import controllers, webhooks
from trainyard_kube.resources import WEBHOOK_CONFIGURATIONS


def test_the_reference_runs_as_shipped_unless_its_client_is_allowed_more():
    shipped = controllers.reference_configuration(9443, 8081)
    assert shipped == {
        "apiVersion": "config.trainer.kubeflow.org/v1alpha1",
        "kind": "Configuration",
        "certManagement": {"enable": False},
        "health": {"healthProbeBindAddress": "127.0.0.1:8081"},
        "leaderElection": {"leaderElect": False},
        "metrics": {"bindAddress": "0"},
        "webhook": {"host": "127.0.0.1", "port": 9443},
    }
    fast = controllers.reference_configuration(9443, 8081, 2000)
    assert fast == {**shipped, "clientConnection": {"qps": 2000, "burst": 2000}}


def test_webhooks_are_called_by_url_and_trusted_only_if_told_whom():
    controller = controllers.Controller(
        command=[],
        ready_url="",
        log=Path("log"),
        webhook_url="https://127.0.0.1:9443",
        authorities=b"PEM",
        defaults_if="1 == 1",
    )
    found = webhooks.configurations(controller)
    assert [(c["kind"], c["metadata"]["name"]) for c in found] == [
        (r.kind, n) for r, n in WEBHOOK_CONFIGURATIONS
    ]
    mutating, validating = (configuration["webhooks"] for configuration in found)
    assert [hook["name"] for hook in (*mutating, *validating)] == [
        "defaulter.trainjob.trainer.kubeflow.org",
        "validator.trainjob.trainer.kubeflow.org",
        "validator.trainingruntime.trainer.kubeflow.org",
        "validator.clustertrainingruntime.trainer.kubeflow.org",
    ]
    assert mutating[0]["clientConfig"] == {
        "url": "https://127.0.0.1:9443/mutate-trainer-kubeflow-org-v1alpha1-trainjob",
        "caBundle": "UEVN",
    }
    assert [hook["matchConditions"] for hook in (*mutating, *validating)] == [
        [{"name": "only-if", "expression": "1 == 1"}],
        [],
        [],
        [],
    ]
    (plain, _) = webhooks.configurations(replace(controller, authorities=None, defaults_if=None))
    assert plain["webhooks"][0]["clientConfig"].keys() == {"url"}
    assert plain["webhooks"][0]["matchConditions"] == []


def test_the_operator_of_another_checkout_runs_with_what_that_one_requires(tmp_path, monkeypatch):
    monkeypatch.setattr(controllers, "environment", lambda checkout: checkout / "environment")
    controller = controllers.ours(tmp_path / "kubeconfig", tmp_path, checkout=tmp_path / "older")
    assert controller.command[0] == str(tmp_path / "older" / "environment" / "bin" / "python")
