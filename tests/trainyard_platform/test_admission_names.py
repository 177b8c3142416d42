"""What the platform calls by name has that name in the operator, though neither imports the other."""

from tests.support.program import Registered
from trainyard_operator.kube.client import Client
from trainyard_operator.kube.credentials import Credentials
from trainyard_operator.serve import webhook_configurations
from trainyard_operator.serve.admission import Decider
from trainyard_operator.watch.cache import Cache
from trainyard_operator.work.memory import Memories
from trainyard_operator.work.runtimes import Runtimes
from trainyard_platform.parts.operator import rbac
from trainyard_policies.settings import Policies

WEBHOOKS = "kubernetes:admissionregistration.k8s.io/v1:"


def test_the_paths_that_are_called_are_those_that_are_served(graph: dict[str, Registered]) -> None:
    client = Client(Credentials(server="http://127.0.0.1", tls=None))
    cache = Cache()
    runtimes = Runtimes(client, cache, namespace="n", memories=Memories(cache))
    served = Decider(client, cache, runtimes, synced=lambda: True, policies=Policies()).routes()
    called = {
        (webhook["clientConfig"]["service"]["path"], webhook["rules"][0]["resources"][0])
        for key, one in graph.items()
        if key.startswith(WEBHOOKS) and "WebhookConfiguration" in key
        for webhook in one.inputs["webhooks"]
    }
    assert called == {(path, f"{kind.lower()}s") for path, (kind, _) in served.items()}


def test_what_the_operator_may_touch_is_what_it_touches() -> None:
    allowed = {(rule["resources"][0], rule["resourceNames"][0]) for rule in rbac.ADMISSION}
    assert allowed == {(resource.plural, name) for resource, name in webhook_configurations.CONFIGURATIONS}
