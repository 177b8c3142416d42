"""What the platform calls by name has that name in the operator, though neither imports the other."""

from trainyard_api.configuration import Configuration
from trainyard_operator import wiring
from trainyard_operator.kube.client import Client
from trainyard_operator.kube.credentials import Credentials
from trainyard_operator.serve import certificate_keeper, webhook_configurations
from trainyard_operator.serve.admission import Decider
from trainyard_operator.watch.cache import Cache
from trainyard_operator.work.memory import Memories
from trainyard_operator.work.runtimes import Runtimes
from trainyard_platform.parts.operator import endpoints as operator
from trainyard_platform.parts.operator import rbac
from trainyard_policies.settings import Policies

from .program import Registered

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
    assert certificate_keeper.NAME == rbac.WEBHOOK_CERTIFICATE
    assert [name for _, name in webhook_configurations.CONFIGURATIONS] == [
        rbac.MUTATING_WEBHOOKS,
        rbac.VALIDATING_WEBHOOKS,
    ]
    allowed = {(rule["resources"][0], rule["resource_names"][0]) for rule in rbac.ADMISSION}
    assert allowed == {(resource.plural, name) for resource, name in webhook_configurations.CONFIGURATIONS}


def test_service_and_port_are_the_operators() -> None:
    told = Configuration()
    assert wiring.SERVICE == operator.NAME
    assert (told.metrics.port, told.webhook.port, told.status_server.port) == (
        operator.PORT,
        operator.WEBHOOK_PORT,
        operator.STATUS_PORT,
    )
