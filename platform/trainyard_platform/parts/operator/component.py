"""Trainyard's operator: its identity, rights, configuration and Deployment."""

from collections.abc import Iterable, Iterator, Mapping

import pulumi

from trainyard_api import names
from trainyard_api.configuration import CertManagement, Configuration, Metrics, Webhook
from trainyard_api.json_types import Manifest
from trainyard_policies.settings import Policies

from ...assembly import Assembly, Served
from ...objects import protection
from ...objects.declare import declare
from ...stack import operator_memory
from ...stack.operator import EVERYWHERE, Certificates, KubeflowNamespace
from ...stack.operator import Operator as Settings
from ...stack.settings import StackSettings
from ..catalog.component import Catalog
from ..crds.component import Crds
from ..jobset.component import JobSet
from ..kubeflow import component as kubeflow
from ..system.component import System
from ..tenants.component import Tenants
from . import cert_manager, manifests, rbac
from .endpoints import LABELS, served_ports
from .manifests import CERTIFICATE_FOLDER, CONFIGURATION_FOLDER, POLICIES, USER, Process


class Operator(pulumi.ComponentResource):
    """Installs the operator and waits until it is ready."""

    def __init__(
        self,
        name: str,
        opts: pulumi.ResourceOptions,
        *,
        process: Process,
        tenants: Mapping[str, pulumi.Resource],
        after: list[pulumi.Resource],
    ) -> None:
        super().__init__("trainyard:platform:Operator", name, {}, opts)
        inside = pulumi.ResourceOptions(parent=self, depends_on=after)
        account = declare(manifests.account(), inside, names.OPERATOR)
        rights = list(self._rights(process, tenants, inside))
        protection = list(self._protection(process.settings, inside))
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
        self.register_outputs({"namespace": names.SYSTEM_NAMESPACE})

    def _rights(
        self, process: Process, tenants: Mapping[str, pulumi.Resource], inside: pulumi.ResourceOptions
    ) -> Iterator[pulumi.Resource]:
        """What it may do: in the cluster, in its own namespace, and in those of others."""
        cluster_rules = manifests.cluster_rules(process)
        settings = process.settings
        logs = settings.last_lines
        inside_others = [(manifests.MPI, rbac.SECRETS, settings.mpi_namespaces)]
        if logs.lines:
            inside_others.append((manifests.LAST_LINES, rbac.LAST_LINES, logs.namespaces))
        for _, rules, namespaces in inside_others:
            if EVERYWHERE in namespaces:
                cluster_rules += rules
        has_kubeflow = settings.kubeflow_namespace is not KubeflowNamespace.ABSENT
        if not has_kubeflow:
            # A missing namespace cannot have a Role: the one Lease is then
            # allowed by its name, wherever it is.
            cluster_rules += rbac.UPSTREAM
        namespace_rules = manifests.own_rules(process)
        yield from _declared(manifests.granted(cluster_rules), inside, names.OPERATOR)
        yield from _declared(
            manifests.granted(namespace_rules, names.SYSTEM_NAMESPACE), inside, names.OPERATOR
        )
        if has_kubeflow:
            upstream = manifests.granted(rbac.UPSTREAM, names.KUBEFLOW_NAMESPACE)
            yield from _declared(upstream, inside, f"{names.OPERATOR}-kubeflow")
        for name, rules, namespaces in inside_others:
            # Tenants' roles stay beside the rights everywhere: without these, nothing changes for them.
            for namespace in dict.fromkeys((*namespaces, *tenants)):
                if namespace == EVERYWHERE:
                    continue
                # A namespace that is not a tenant's exists before the platform.
                before = [tenants[namespace]] if namespace in tenants else []
                options = pulumi.ResourceOptions(parent=self, depends_on=before)
                granted = manifests.granted(rules, namespace, name)
                yield from _declared(granted, options, f"{name}-{namespace}")

    def _protection(self, settings: Settings, inside: pulumi.ResourceOptions) -> Iterator[pulumi.Resource]:
        of_the_cluster: list[Manifest] = []
        if settings.priority_class:
            of_the_cluster.append(protection.priority_class(names.OPERATOR, LABELS))
        if settings.flow_schemas:
            of_the_cluster += protection.flow_schemas(names.OPERATOR, names.SYSTEM_NAMESPACE, LABELS)
        for manifest in of_the_cluster:
            yield declare(manifest, pulumi.ResourceOptions(parent=self))
        if settings.disruption_budget and settings.replicas > 1:
            budget = protection.disruption_budget(names.OPERATOR, names.SYSTEM_NAMESPACE, LABELS)
            yield declare(budget, inside)


def install(assembly: Assembly) -> None:
    """Install the operator."""
    stack = assembly.stack
    tenants = assembly.find(Tenants)
    operator = Operator(
        "operator",
        assembly.options,
        process=_process(stack, pulumi.get_stack(), assembly.rules),
        tenants=tenants.namespaces if tenants else {},
        after=assembly.after(System, Crds, JobSet, Catalog, kubeflow.Kubeflow),
    )
    assembly.add(operator)
    [system] = assembly.after(System)
    assembly.served.append(Served(names.SYSTEM_NAMESPACE, system, served_ports(stack)))
    pulumi.export("operatorNamespace", names.SYSTEM_NAMESPACE)


def _process(stack: StackSettings, name: str, policies: Policies | None) -> Process:
    """The stack's CPU and memory of the operator, with the memory that its tenants' objects need."""
    operator = stack.operator
    configuration = Configuration(
        webhook=Webhook(
            enabled=stack.admission.enabled,
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
        queue_holds="JobSet" if stack.queues_hold_jobsets else "TrainJob",
        retention=operator.retention,
        suspended_condition=operator.suspended_condition,
    )
    return Process(
        stack=name,
        settings=operator,
        memory=operator.resources.memory or f"{operator_memory.LEAST}Mi",
        memory_limit=operator.resources.memory or f"{operator_memory.limit(stack.held)}Mi",
        configuration=configuration,
        user=None if stack.cluster.assigns_users else USER,
        policies=policies,
        controllers=stack.controllers,
    )


def _declared(
    objects: Iterable[Manifest], opts: pulumi.ResourceOptions, resource_name: str
) -> Iterator[pulumi.Resource]:
    yield from (declare(manifest, opts, resource_name) for manifest in objects)
