"""What the platform calls by name has that name in the operator, though neither imports the other."""

from trainyard_kube.client import Client
from trainyard_kube.credentials import Credentials
from trainyard_kube.resources import WEBHOOK_CONFIGURATIONS
from trainyard_operator.serve.admission import Decider
from trainyard_operator.watch.cache import Cache
from trainyard_operator.work.memory import Memories
from trainyard_operator.work.runtimes import Runtimes
from trainyard_platform.parts.admission import manifests
from trainyard_platform.parts.admission.manifests import WebhookSettings
from trainyard_platform.parts.operator import rbac
from trainyard_platform.stack.kueue import OF_TENANTS
from trainyard_policies.settings import Policies


def test_the_paths_that_are_called_are_those_that_are_served() -> None:
    client = Client(Credentials(server="http://127.0.0.1", tls=None))
    cache = Cache()
    runtimes = Runtimes(client, cache, namespace="n", memories=Memories(cache))
    served = Decider(client, cache, runtimes, synced=lambda: True, policies=Policies()).routes()
    asked = WebhookSettings(policies=True, queued=OF_TENANTS)
    called = {
        (webhook["clientConfig"]["service"]["path"], webhook["rules"][0]["resources"][0])
        for configuration in (manifests.mutating(asked), manifests.validating(asked))
        for webhook in configuration["webhooks"]
    }
    assert called == {(path, f"{kind.lower()}s") for path, (kind, _) in served.items()}


def test_what_the_operator_may_touch_is_what_it_touches() -> None:
    allowed = {(rule["resources"][0], rule["resourceNames"][0]) for rule in rbac.ADMISSION}
    assert allowed == {(resource.plural, name) for resource, name in WEBHOOK_CONFIGURATIONS}
