"""The platform of one stack: its parts, in the order in which they need each other."""

from pathlib import Path

import pulumi

from trainyard_platform import cluster, settings, versions
from trainyard_platform.artifacts import Artifacts
from trainyard_platform.catalog import installed as stack_runtimes
from trainyard_platform.parts.accelerators.component import Accelerators, AcceleratorsArgs
from trainyard_platform.parts.admission.component import Admission, AdmissionArgs
from trainyard_platform.parts.catalog.component import Catalog, CatalogArgs
from trainyard_platform.parts.coscheduling.component import Coscheduling, CoschedulingArgs
from trainyard_platform.parts.crds.component import Crds, CrdsArgs
from trainyard_platform.parts.data_cache.component import DataCache, DataCacheArgs
from trainyard_platform.parts.external_secrets.component import ExternalSecrets
from trainyard_platform.parts.jobset.component import JobSet, JobSetArgs
from trainyard_platform.parts.kubeflow.component import Kubeflow, KubeflowArgs
from trainyard_platform.parts.kueue.component import Kueue, KueueArgs
from trainyard_platform.parts.network_policies.component import NetworkPolicies, Served
from trainyard_platform.parts.node_pools import manifests as pool_manifests
from trainyard_platform.parts.node_pools.component import provide
from trainyard_platform.parts.observability.component import Observability, ObservabilityArgs
from trainyard_platform.parts.operator.component import Operator, OperatorArgs, served_ports
from trainyard_platform.parts.operator.settings import Certificates
from trainyard_platform.parts.policies.component import PolicyRules, PolicyRulesArgs
from trainyard_platform.parts.queues.component import Queues, QueuesArgs
from trainyard_platform.parts.storage.component import Storage, StorageArgs
from trainyard_platform.parts.system.component import NAMESPACE, System
from trainyard_platform.parts.tenants.component import Tenants, TenantsArgs
from trainyard_platform.parts.volcano.component import Volcano, VolcanoArgs

root = Path(__file__).resolve().parent.parent
config = pulumi.Config("trainyard")
stack = settings.load(config.get("platform"), pulumi.get_stack())
artifacts = Artifacts(stack.artifacts, root)
versions.check(stack, artifacts, pulumi.get_stack())
runtimes = stack_runtimes.load(root / "runtimes", stack, artifacts.registry, pulumi.log.info)
render_to = config.get("renderTo")
on_cluster = cluster.options(cluster.provider(stack.cluster, pulumi.get_stack(), render_to))

plugins = Accelerators("accelerators", AcceleratorsArgs.of(stack, artifacts), on_cluster)
crds = Crds("crds", CrdsArgs.of(stack, artifacts), on_cluster)
foundation: list[pulumi.Resource] = [crds]
served: list[Served] = []
unserved = dict(plugins.namespaces)
if stack.jobset.enabled:
    jobset = JobSet("jobset", JobSetArgs.of(stack, artifacts, after=[crds]), on_cluster)
    foundation.append(jobset)
    served.append(jobset.served)
    pulumi.export("jobsetNamespace", jobset.namespace)
provide(
    stack.node_pools,
    stack.cluster,
    on_cluster,
    stays_without=foundation[-1],
    node_groups=render_to is None,  # to render is to make nothing
)
scraped: list[pulumi.Resource] = []
tenants: list[pulumi.Resource] = []
tenant_namespaces: dict[str, pulumi.Resource] = {}
if stack.kueue.enabled:
    after_kueue: list[pulumi.Resource] = [crds]
    stays_without = foundation[-1]
    if stack.kueue.installs:
        kueue = Kueue("kueue", KueueArgs.of(stack, artifacts, after=[crds]), on_cluster)
        after_kueue, stays_without = [kueue], kueue.namespace
        scraped = [kueue]
        served.append(kueue.served)
    queues = pool_manifests.with_pools(stack.queues, stack.node_pools)
    queues_args = QueuesArgs(
        queues=queues,
        namespace=stack.kueue_namespace,
        stays_without=stays_without,
        integrations=stack.kueue.integrations,
        looked_at=stack.kueue.namespace_selector.manifest(),
        after=after_kueue,
    )
    quota = Queues("queues", queues_args, on_cluster)
    tenants_args = TenantsArgs(
        tenants=stack.tenants,
        labels=stack.labels_of_tenants,
        dns_ports=stack.cluster.dns_ports,
        reports=stack.operator.feature_gates.train_job_status,
        after=[quota],
    )
    declared = Tenants("tenants", tenants_args, on_cluster)
    tenants, tenant_namespaces = [declared], declared.namespaces
if stack.volcano.enabled:
    volcano_args = VolcanoArgs.of(stack, artifacts, after=[crds])
    served.append(Volcano("volcano", volcano_args, on_cluster).served)
if stack.coscheduling.enabled:
    gangs = CoschedulingArgs.of(stack, artifacts, after=[crds])
    served.append(Coscheduling("coscheduling", gangs, on_cluster).served)
storage = Storage("storage", StorageArgs(storage=stack.storage), on_cluster)
if stack.data_cache.enabled:
    cache = DataCache("data-cache", DataCacheArgs.of(stack, artifacts, after=[crds, *tenants]), on_cluster)
    unserved |= cache.namespaces
system = System("system", on_cluster)
served.append(Served(NAMESPACE, system, served_ports(stack)))
rules = stack.rules if stack.admission.holds_rules else None
held: list[pulumi.Resource] = []
if rules is not None:
    held = [PolicyRules("policies", PolicyRulesArgs(policies=rules, after=[crds, system]), on_cluster)]
before_runtimes = [*foundation, storage, *held]
installed = Catalog("catalog", CatalogArgs(runtimes=runtimes, after=before_runtimes), on_cluster)
kubeflow = Kubeflow("kubeflow", KubeflowArgs.of(stack.operator, artifacts), on_cluster)
operator = Operator(
    "operator",
    OperatorArgs.of(
        stack.operator,
        stack.admission,
        stack.cluster,
        controllers=stack.controllers,
        policies=rules,
        tenants=tenant_namespaces,
        after=[system, *foundation, installed, kubeflow],
    ),
    on_cluster,
)
if stack.controllers.external_secrets:
    homes = {one.name: one.namespace for one in served} | unserved
    ExternalSecrets("external-secrets", stack.controllers.external_secrets, homes, on_cluster)
if stack.network_policies:
    NetworkPolicies("network-policies", served, on_cluster)
if stack.admission.enabled:
    by_cert_manager = stack.operator.certificates is Certificates.CERT_MANAGER
    Admission(
        "admission",
        AdmissionArgs(
            namespace=operator.namespace,
            after=[operator],
            cert_manager=by_cert_manager,
            policies=rules is not None,
            queued=stack.kueue.namespace_selector if stack.kueue.enabled else None,
        ),
        on_cluster,
    )
if stack.observability.enabled:
    watched = ObservabilityArgs.of(stack, after=[crds, operator, *scraped])
    Observability("observability", watched, on_cluster)

pulumi.export("trainerVersion", artifacts.version("trainer"))
pulumi.export("operatorNamespace", operator.namespace)
pulumi.export("runtimes", installed.runtimes)
