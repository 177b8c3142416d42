"""The gate in the cluster as tests need it: many stacks' rules on one API server, told apart by a label.

Admission policies are those that the platform installs; the webhook is the
operator's, in this process.
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
from trainyard_policies import cluster

LABEL = "gates"
KINDS = ("TrainJob", "TrainingRuntime", "ClusterTrainingRuntime")
NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)


def objects(name, policies, only=None):
    """The policies for what has the label with this value; of `only` these rules."""
    parameters, *rest = cluster.objects(policies, name)
    yield parameters
    for one in rest:
        rule = one["spec"].get("policyName", one["metadata"]["name"]).removesuffix(f".{names.POLICY_DOMAIN}")
        if only is None or rule in only:
            yield _told_apart(name, one)


def _told_apart(name, one):
    spec = one["spec"]
    if one["kind"].endswith("Binding"):
        selector = {"objectSelector": {"matchLabels": {LABEL: name}}}
        spec = {
            **spec,
            "policyName": f"{name}-{spec['policyName']}",
            "matchResources": {**spec["matchResources"], **selector},
        }
    return {**one, "metadata": {**one["metadata"], "name": f"{name}-{one['metadata']['name']}"}, "spec": spec}


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
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": "gates"},
        "webhooks": [
            {
                "name": f"{kind.lower()}.{name}.{names.POLICY_DOMAIN}",
                "admissionReviewVersions": ["v1"],
                "clientConfig": {
                    "url": f"{url}/{name}/{kind.lower()}",
                    "caBundle": b64encode(authorities).decode(),
                },
                "objectSelector": {"matchLabels": {LABEL: name}},
                "rules": [
                    {
                        "apiGroups": ["trainer.kubeflow.org"],
                        "apiVersions": ["v1alpha1"],
                        "operations": ["CREATE", "UPDATE"],
                        "resources": [f"{kind.lower()}s"],
                    }
                ],
                "sideEffects": "None",
            }
            for name in stacks
            for kind in KINDS
        ],
    }


def ask(api, manifest, name):
    """What the API server says to a manifest under a stack's rules, without keeping it."""
    metadata = {**manifest["metadata"], "labels": {**manifest["metadata"].get("labels", {}), LABEL: name}}
    path = live.path_of(manifest["apiVersion"], manifest["kind"])
    metadata.pop("namespace", None)
    return api.call("POST", f"{path}?dryRun=All&fieldValidation=Strict", {**manifest, "metadata": metadata})
