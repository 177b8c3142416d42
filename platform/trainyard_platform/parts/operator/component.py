"""Trainyard's operator: its identity, rights, configuration and Deployment."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import pulumi

from trainyard_api import names
from trainyard_api.configuration import CertManagement, Configuration, Metrics, Webhook
from trainyard_api.json_types import Manifest
from trainyard_policies.settings import Policies

from ...assembly import Assembly, Served
from ...objects import protection
from ...objects.declare import declare
from ...stack import operator_memory
from ...stack.admission import Admission
from ...stack.operator import EVERYWHERE, Certificates, KubeflowNamespace
from ...stack.operator import Operator as Settings
from ...stack.pod_settings import Controllers
from ...stack.settings import Cluster
from ..catalog.component import Catalog
from ..crds.component import Crds
from ..jobset.component import JobSet
from ..kubeflow import component as kubeflow
from ..system.component import System
from ..tenants.component import Tenants
from . import cert_manager, manifests, rbac
from .endpoints import LABELS, served_ports
from .manifests import CERTIFICATE_FOLDER, CONFIGURATION_FOLDER, POLICIES, USER, Process


@dataclass(frozen=True, kw_only=True)
class OperatorArgs:
    """What the operator component needs from the stack."""

    process: Process
    mpi_namespaces: Mapping[str, Sequence[pulumi.Resource]] = field(default_factory=dict)
    """Where it may create the keys of MPI jobs, and what must exist first."""
    log_namespaces: Mapping[str, Sequence[pulumi.Resource]] = field(default_factory=dict)
    """Where it may read the logs of failed jobs, and what must exist first."""
    kubeflow_namespace: str | None = None
    """Namespace where upstream's controller would hold its Lease; None if the cluster has none."""
    disruption_budget: bool = True
    flow_schemas: bool = True
    after: Sequence[pulumi.Resource] = ()

    @classmethod
    def of(
        cls,
        operator: Settings,
        admission: Admission,
        cluster: Cluster,
        *,
        controllers: Controllers,
        held: int = 0,
        queue_holds_jobsets: bool = False,
        policies: Policies | None = None,
        tenants: Mapping[str, pulumi.Resource],
        after: Sequence[pulumi.Resource],
    ) -> "OperatorArgs":
        """What the stack says; `held` is how many TrainJobs and TrainingRuntimes its tenants may have."""
        absent = operator.kubeflow_namespace is KubeflowNamespace.ABSENT
        configuration = Configuration(
            webhook=Webhook(
                enabled=admission.enabled,
                policies=f"{CONFIGURATION_FOLDER}/{POLICIES}" if policies else None,
            ),
            cert_management=CertManagement(
                folder=CERTIFICATE_FOLDER if operator.certificates is Certificates.CERT_MANAGER else None
            ),
            controller=operator.controller,
            feature_gates=operator.feature_gates,
            last_lines=operator.last_lines.lines,
            limits=operator.limits,
            metrics=Metrics(
                authentication=operator.metrics_authentication, secure_port=names.SECURE_METRICS_PORT
            ),
            queue_holds="JobSet" if queue_holds_jobsets else "TrainJob",
            retention=operator.retention,
            suspended_condition=operator.suspended_condition,
        )
        tenant_namespaces = {name: [namespace] for name, namespace in tenants.items()}
        logs = operator.last_lines
        return cls(
            process=Process(
                image=operator.image,
                image_pull_policy=operator.image_pull_policy,
                replicas=operator.replicas,
                cpu=operator.resources.cpu,
                memory=operator.resources.memory or f"{operator_memory.LEAST}Mi",
                memory_limit=operator.resources.memory or f"{operator_memory.limit(held)}Mi",
                configuration=configuration,
                user=None if cluster.assigns_users else USER,
                arguments=operator.args,
                policies=policies,
                priority_class=operator.priority_class,
                controllers=controllers,
            ),
            mpi_namespaces={**dict.fromkeys(operator.mpi_namespaces, ()), **tenant_namespaces},
            log_namespaces={**dict.fromkeys(logs.namespaces, ()), **tenant_namespaces} if logs.lines else {},
            kubeflow_namespace=None if absent else names.KUBEFLOW_NAMESPACE,
            disruption_budget=operator.disruption_budget,
            flow_schemas=operator.flow_schemas,
            after=after,
        )


class Operator(pulumi.ComponentResource):
    """Installs the operator and waits until it is ready."""

    namespace: pulumi.Output[str]

    def __init__(self, name: str, args: OperatorArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("trainyard:platform:Operator", name, {}, opts)
        process, after = args.process, list(args.after)
        inside = pulumi.ResourceOptions(parent=self, depends_on=after)
        account = declare(manifests.account(), inside, names.OPERATOR)
        rights = list(self._rights(args, inside))
        protection = list(self._protection(args, inside))
        certificate: list[pulumi.Resource] = []
        if process.cert_manager:
            for manifest in cert_manager.certificate(names.OPERATOR, names.SYSTEM_NAMESPACE, LABELS):
                resource_name = f"{manifest['kind'].lower()}-{manifest['metadata']['name']}"
                certificate.append(declare(manifest, inside, resource_name))
        configuration = declare(manifests.configuration(process), inside, names.OPERATOR)
        deployment = declare(
            manifests.deployment(process),
            # On removal the operator is deleted before its permissions.
            pulumi.ResourceOptions(
                parent=self,
                depends_on=[account, configuration, *certificate, *rights, *protection, *after],
                custom_timeouts=pulumi.CustomTimeouts(create="5m", update="5m"),
            ),
            names.OPERATOR,
        )
        if service := manifests.service(process):
            declare(service, pulumi.ResourceOptions(parent=self, depends_on=[deployment]), names.OPERATOR)
        self.namespace = pulumi.Output.from_input(names.SYSTEM_NAMESPACE)
        self.register_outputs({"namespace": self.namespace})

    def _rights(self, args: OperatorArgs, inside: pulumi.ResourceOptions) -> Iterator[pulumi.Resource]:
        """What it may do: in the cluster, in its own namespace, and in those of others."""
        cluster_rules = manifests.cluster_rules(args.process)
        inside_others = (
            (manifests.MPI, rbac.SECRETS, args.mpi_namespaces),
            (manifests.LAST_LINES, rbac.LAST_LINES, args.log_namespaces),
        )
        for _, rules, namespaces in inside_others:
            if EVERYWHERE in namespaces:
                cluster_rules += rules
        if not args.kubeflow_namespace:
            # A missing namespace cannot have a Role: the one Lease is then
            # allowed by its name, wherever it is.
            cluster_rules += rbac.UPSTREAM
        namespace_rules = manifests.own_rules(args.process)
        yield from _declared(manifests.granted(cluster_rules), inside, names.OPERATOR)
        yield from _declared(
            manifests.granted(namespace_rules, names.SYSTEM_NAMESPACE), inside, names.OPERATOR
        )
        if args.kubeflow_namespace:
            upstream = manifests.granted(rbac.UPSTREAM, args.kubeflow_namespace)
            yield from _declared(upstream, inside, f"{names.OPERATOR}-kubeflow")
        for name, rules, namespaces in inside_others:
            for namespace, prerequisites in namespaces.items() if EVERYWHERE not in namespaces else ():
                options = pulumi.ResourceOptions(parent=self, depends_on=list(prerequisites))
                granted = manifests.granted(rules, namespace, name)
                yield from _declared(granted, options, f"{name}-{namespace}")

    def _protection(self, args: OperatorArgs, inside: pulumi.ResourceOptions) -> Iterator[pulumi.Resource]:
        of_the_cluster: list[Manifest] = []
        if args.process.priority_class:
            of_the_cluster.append(protection.priority_class(names.OPERATOR, LABELS))
        if args.flow_schemas:
            of_the_cluster += protection.flow_schemas(names.OPERATOR, names.SYSTEM_NAMESPACE, LABELS)
        for manifest in of_the_cluster:
            yield declare(manifest, pulumi.ResourceOptions(parent=self))
        if args.disruption_budget and args.process.replicas > 1:
            budget = protection.disruption_budget(names.OPERATOR, names.SYSTEM_NAMESPACE, LABELS)
            yield declare(budget, inside)


def install(assembly: Assembly) -> None:
    """Install the operator."""
    stack = assembly.stack
    tenants = assembly.find(Tenants)
    args = OperatorArgs.of(
        stack.operator,
        stack.admission,
        stack.cluster,
        controllers=stack.controllers,
        held=stack.held,
        queue_holds_jobsets=stack.queues_hold_jobsets,
        policies=assembly.rules,
        tenants=tenants.namespaces if tenants else {},
        after=assembly.after(System, Crds, JobSet, Catalog, kubeflow.Kubeflow),
    )
    operator = assembly.add(Operator("operator", args, assembly.options))
    [system] = assembly.after(System)
    assembly.served.append(Served(names.SYSTEM_NAMESPACE, system, served_ports(stack)))
    pulumi.export("operatorNamespace", operator.namespace)


def _declared(
    objects: Iterable[Manifest], opts: pulumi.ResourceOptions, resource_name: str
) -> Iterator[pulumi.Resource]:
    yield from (declare(manifest, opts, resource_name) for manifest in objects)
