"""What an API server says that reaches nobody behind a webhook, in words for who sends a TrainJob."""

from __future__ import annotations

import pytest

from trainyard_assist import webhooks

CALL = (
    'Internal error occurred: failed calling webhook "{name}": failed to call webhook: Post '
    '"https://{service}.svc:443/mutate?timeout=10s": dial tcp 10.96.0.7:443: connect: connection refused'
)


@pytest.mark.parametrize(
    ("name", "service", "controller", "namespace"),
    [
        (
            "defaulter.trainjob.trainer.kubeflow.org",
            "trainyard-operator.trainyard-system",
            "Trainyard's operator",
            "trainyard-system",
        ),
        ("mtrainjob.kb.io", "kueue-webhook-service.kueue-system", "Kueue", "kueue-system"),
        ("mjobset.kb.io", "jobset-webhook-service.jobset-system", "JobSet's controller", "jobset-system"),
        ("mjobset.kb.io", "kueue-webhook-service.its-kueue", "Kueue", "its-kueue"),
        ("mjobset.kb.io", "ml-jobset-webhook-service.ml", "JobSet's controller", "ml"),
        ("mtrainjob.kb.io", "kueue-queues.kueue-system", "Kueue", "kueue-system"),
    ],
)
def test_with_the_operator_or_kueue_down_who_creates_a_job_reads_which_and_what_to_do(
    name: str, service: str, controller: str, namespace: str
) -> None:
    message = CALL.format(name=name, service=service)
    assert webhooks.in_words(message) == (
        f"{controller} does not answer, and until it does nobody can create or change a TrainJob. Try again "
        f"in a minute, or have the platform team look at it: kubectl -n {namespace} get pods ({message})"
    )


@pytest.mark.parametrize(
    "message",
    [
        CALL.format(name="a.b", service="other.elsewhere"),
        'failed calling webhook "mtrainjob.kb.io": no endpoints available',
        'failed calling webhook "https://kueue',
        'spec: Forbidden: "https://x.kueue-system.svc"',
        "",
    ],
)
def test_what_is_about_nobody_of_the_platform_stays_as_the_api_server_says_it(message: str) -> None:
    assert webhooks.in_words(message) == message
