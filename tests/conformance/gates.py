"""The gate in the cluster as tests need it: many stacks' rules on one API server, told apart by a label.

The webhook is the operator's, in this process.
"""

import asyncio
import threading
from base64 import b64encode
from contextlib import contextmanager
from datetime import UTC, datetime

from tests.support import live
from trainyard_api import names
from trainyard_kube import credentials
from trainyard_kube.client import Client
from trainyard_operator.core.build.info import DEFAULT_SETTINGS
from trainyard_operator.metrics import Metrics
from trainyard_operator.serve import certificates
from trainyard_operator.serve.admission import Decider, WebhookServer
from trainyard_operator.serve.dry_runs import Trials
from trainyard_operator.watch.cache import Cache
from trainyard_operator.work.memory import Memories
from trainyard_operator.work.runtimes import Runtimes
from trainyard_platform.parts.policies import manifests

LABEL = "gates"
GUARDED = "guarded"
"""The label's value of what nobody writes while the webhook is missing."""
KINDS = ("TrainJob", "TrainingRuntime", "ClusterTrainingRuntime")
NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)


def past_the_webhook():
    """The platform's policy because of which nobody gets past the webhook, for what has the label."""
    for manifest in manifests.manifests(longest_grace=600):
        if manifest["metadata"]["name"] == manifests.PAST_THE_WEBHOOK:
            selector = {"objectSelector": {"matchLabels": {LABEL: GUARDED}}}
            is_binding = manifest["kind"].endswith("Binding")
            spec = {**manifest["spec"], **({"matchResources": selector} if is_binding else {})}
            yield {**manifest, "spec": spec}


@contextmanager
def webhooks(stacks, kubeconfig, tried):
    """The operator's webhook for each of `stacks` (policies by name); gives its configuration.

    Of the stack `tried` the API server of `kubeconfig` judges the Jobs too.
    """
    issued = certificates.issue(["127.0.0.1"], datetime.now(UTC))
    client = Client(credentials.load(str(kubeconfig)))
    routes = {
        f"/{name}/{kind.lower()}": (kind, _decider(client, policies, name == tried).hold_to_policies)
        for name, policies in stacks.items()
        for kind in KINDS
    }
    server = WebhookServer(routes, Metrics(), host="127.0.0.1", port=0)
    server.load(issued.certificate, issued.key)
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    try:
        asyncio.run_coroutine_threadsafe(client.__aenter__(), loop).result(10)
        asyncio.run_coroutine_threadsafe(server.start(), loop).result(10)
        yield _configuration(stacks, f"https://127.0.0.1:{server.port}", issued.authorities)
    finally:
        asyncio.run_coroutine_threadsafe(server.stop(), loop).result(10)
        asyncio.run_coroutine_threadsafe(client.__aexit__(None, None, None), loop).result(10)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(10)
        loop.close()


def _decider(client, policies, tries):
    cache = Cache()
    runtimes = Runtimes(client, cache, namespace="nobody", memories=Memories(cache))
    trials = Trials(client, lambda: DEFAULT_SETTINGS) if tries else None
    return Decider(
        client, cache, runtimes, synced=lambda: True, policies=policies, trials=trials, now=lambda: NOW
    )


def _configuration(stacks, url, authorities):
    return configuration(
        "gates",
        [
            {
                **_webhook(kind, f"{kind.lower()}.{name}.{names.POLICY_DOMAIN}"),
                "clientConfig": {
                    "url": f"{url}/{name}/{kind.lower()}",
                    "caBundle": b64encode(authorities).decode(),
                },
                "objectSelector": {"matchLabels": {LABEL: name}},
            }
            for name in stacks
            for kind in KINDS
        ],
    )


def configuration(name, webhooks):
    """A ValidatingWebhookConfiguration."""
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": name},
        "webhooks": webhooks,
    }


def silent_webhook(kind):
    """The webhook of the rules for a kind, named as the platform does, which nothing leads to."""
    return {
        **_webhook(kind, f"{kind.lower()}.{names.POLICY_DOMAIN}"),
        "clientConfig": {"url": "https://127.0.0.1:1/"},
        "objectSelector": {"matchLabels": {LABEL: "nobody"}},
    }


def _webhook(kind, name):
    rule = {
        "apiGroups": ["trainer.kubeflow.org"],
        "apiVersions": ["v1alpha1"],
        "operations": ["CREATE", "UPDATE"],
        "resources": [f"{kind.lower()}s"],
    }
    return {"name": name, "admissionReviewVersions": ["v1"], "rules": [rule], "sideEffects": "None"}


def ask(api, manifest, name):
    """What the API server says to a manifest under a stack's rules, without keeping it."""
    metadata = {**manifest["metadata"], "labels": {**manifest["metadata"].get("labels", {}), LABEL: name}}
    path = live.path_of(manifest["apiVersion"], manifest["kind"])
    metadata.pop("namespace", None)
    return api.call("POST", f"{path}?dryRun=All&fieldValidation=Strict", {**manifest, "metadata": metadata})
