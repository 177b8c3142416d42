"""Trainyard's operator: its identity, rights, configuration and Deployment."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pulumi
from pulumi_kubernetes.apps.v1 import (
    Deployment,
    DeploymentSpecArgs,
    DeploymentStrategyArgs,
    RollingUpdateDeploymentArgs,
)
from pulumi_kubernetes.core.v1 import (
    CapabilitiesArgs,
    ConfigMap,
    ConfigMapVolumeSourceArgs,
    ContainerArgs,
    ContainerPortArgs,
    EmptyDirVolumeSourceArgs,
    EnvVarArgs,
    EnvVarSourceArgs,
    HTTPGetActionArgs,
    ObjectFieldSelectorArgs,
    PodSecurityContextArgs,
    PodSpecArgs,
    PodTemplateSpecArgs,
    ProbeArgs,
    ResourceRequirementsArgs,
    SeccompProfileArgs,
    SecretVolumeSourceArgs,
    SecurityContextArgs,
    Service,
    ServiceAccount,
    ServicePortArgs,
    ServiceSpecArgs,
    TopologySpreadConstraintArgs,
    VolumeArgs,
    VolumeMountArgs,
)
from pulumi_kubernetes.meta.v1 import LabelSelectorArgs, ObjectMetaArgs
from pulumi_kubernetes.rbac.v1 import (
    ClusterRole,
    ClusterRoleBinding,
    PolicyRuleArgs,
    Role,
    RoleBinding,
    RoleRefArgs,
    SubjectArgs,
)

from trainyard_api import documents, names
from trainyard_api.configuration import CertManagement, Configuration, Metrics, Webhook
from trainyard_policies.settings import Policies

from ...assembly import Assembly, Served
from ...controllers import Controllers
from ...model import ComputeResources, PullPolicy
from ...objects import kept, pods, protection
from ...objects.declared import declare
from ...settings import Cluster
from ..admission.settings import Admission
from ..catalog.component import Catalog
from ..crds.component import Crds
from ..jobset.component import JobSet
from ..kubeflow import component as kubeflow
from ..system.component import System
from ..tenants.component import Tenants
from . import cert_manager, rbac
from .endpoints import LABELS, served_ports
from .settings import EVERYWHERE, Certificates, KubeflowNamespace
from .settings import Operator as Settings

CONFIGURATION = "configuration.yaml"
POLICIES = "policies.yaml"
CONFIGURATION_FOLDER = "/etc/trainyard"
CERTIFICATE_FOLDER = "/etc/trainyard-certificate"
FROM_STACK = {
    "api_version",
    "kind",
    "webhook",
    "cert_management",
    "controller",
    "feature_gates",
    "limits",
    "metrics",
    "retention",
}
"""What the configuration says; the rest is as the operator has it by default."""
DIGEST = "trainyard.dev/configuration"
"""Annotation of the pods: a digest of the configuration, so that a new one means new pods."""
USER = 65532
RBAC_GROUP = "rbac.authorization.k8s.io"


@dataclass(frozen=True, kw_only=True)
class OperatorArgs:
    """What the operator component needs from the stack."""

    image: str
    image_pull_policy: PullPolicy
    replicas: int
    resources: ComputeResources
    configuration: Configuration
    """What its processes are told."""
    user: int | None = USER
    """Whom it runs as, and which group; None where the cluster assigns them."""
    arguments: Sequence[str] = ()
    policies: Policies | None = None
    """The rules' levels and parameters, if its webhook is asked about them."""
    mpi_namespaces: Mapping[str, Sequence[pulumi.Resource]] = field(default_factory=dict)
    """Where it may make the keys of MPI jobs, and what must be there first."""
    kubeflow_namespace: str | None = None
    """Namespace where upstream's controller would hold its Lease; None if the cluster has none."""
    disruption_budget: bool = True
    priority_class: bool = True
    flow_schemas: bool = True
    controllers: Controllers
    after: Sequence[pulumi.Resource] = ()

    @property
    def admission(self) -> bool:
        """Whether it answers webhooks."""
        return self.configuration.webhook.enabled

    @property
    def cert_manager(self) -> bool:
        """Whether cert-manager makes its certificate."""
        return self.configuration.cert_management.folder is not None

    @property
    def asks_readers(self) -> bool:
        """Whether metrics are only for those who may read them."""
        return self.configuration.metrics.authentication

    @property
    def reports(self) -> bool:
        """Whether training processes may report their progress to it."""
        return self.configuration.feature_gates.train_job_status

    @classmethod
    def of(
        cls,
        operator: Settings,
        admission: Admission,
        cluster: Cluster,
        *,
        controllers: Controllers,
        policies: Policies | None = None,
        tenants: Mapping[str, pulumi.Resource],
        after: Sequence[pulumi.Resource],
    ) -> "OperatorArgs":
        """What the stack says."""
        absent = operator.kubeflow_namespace is KubeflowNamespace.ABSENT
        return cls(
            image=operator.image,
            image_pull_policy=operator.image_pull_policy,
            replicas=operator.replicas,
            resources=operator.resources,
            configuration=Configuration(
                webhook=Webhook(
                    enabled=admission.enabled,
                    policies=f"{CONFIGURATION_FOLDER}/{POLICIES}" if policies else None,
                ),
                cert_management=CertManagement(
                    folder=CERTIFICATE_FOLDER if operator.certificates is Certificates.CERT_MANAGER else None
                ),
                controller=operator.controller,
                feature_gates=operator.feature_gates,
                limits=operator.limits,
                metrics=Metrics(
                    authentication=operator.metrics_authentication, secure_port=names.SECURE_METRICS_PORT
                ),
                retention=operator.retention,
            ),
            user=None if cluster.assigns_users else USER,
            arguments=operator.args,
            policies=policies,
            mpi_namespaces={
                **dict.fromkeys(operator.mpi_namespaces, ()),
                **{name: [namespace] for name, namespace in tenants.items()},
            },
            kubeflow_namespace=None if absent else names.KUBEFLOW_NAMESPACE,
            disruption_budget=operator.disruption_budget,
            priority_class=operator.priority_class,
            flow_schemas=operator.flow_schemas,
            controllers=controllers,
            after=after,
        )


class Operator(pulumi.ComponentResource):
    """Installs the operator and waits until it is ready."""

    namespace: pulumi.Output[str]
    deployment: Deployment

    def __init__(self, name: str, args: OperatorArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("trainyard:platform:Operator", name, {}, opts)
        after = list(args.after)
        inside = pulumi.ResourceOptions(parent=self, depends_on=after)
        account = ServiceAccount(
            names.OPERATOR,
            metadata=ObjectMetaArgs(name=names.OPERATOR, namespace=names.SYSTEM_NAMESPACE, labels=LABELS),
            automount_service_account_token=False,
            opts=inside,
        )
        cluster_rules, own_rules = list(rbac.CLUSTER), list(rbac.OWN_NAMESPACE)
        if args.admission and not args.cert_manager:
            cluster_rules += rbac.ADMISSION
        if args.policies is not None:
            cluster_rules += rbac.TRIALS
        if args.reports:
            cluster_rules += rbac.REPORTS
        if args.asks_readers:
            cluster_rules += rbac.METRICS
        if (args.admission or args.reports or args.asks_readers) and not args.cert_manager:
            own_rules += rbac.CERTIFICATE
        if args.configuration.retention is not None:
            cluster_rules += rbac.RETENTION
        everywhere = EVERYWHERE in args.mpi_namespaces
        if everywhere:
            cluster_rules += rbac.SECRETS
        if not args.kubeflow_namespace:
            # In a namespace that is not there no Role can be: the one Lease is
            # then allowed by its name, wherever it is.
            cluster_rules += rbac.UPSTREAM
        rights = [
            *self._cluster_rights(cluster_rules, inside),
            *self._rights(names.OPERATOR, names.SYSTEM_NAMESPACE, own_rules, inside),
        ]
        if args.kubeflow_namespace:
            rights += self._rights(
                f"{names.OPERATOR}-kubeflow", args.kubeflow_namespace, rbac.UPSTREAM, inside
            )
        for namespace, there in args.mpi_namespaces.items() if not everywhere else ():
            opened = pulumi.ResourceOptions(parent=self, depends_on=list(there))
            called = f"{names.OPERATOR}-mpi"
            rights += self._rights(f"{called}-{namespace}", namespace, rbac.SECRETS, opened, called)
        protection = self._protection(args, inside)
        certificate: list[pulumi.Resource] = []
        if args.cert_manager:
            certificate = cert_manager.certificate(names.OPERATOR, names.SYSTEM_NAMESPACE, LABELS, inside)
        data = _data(args)
        configuration = ConfigMap(
            names.OPERATOR,
            metadata=ObjectMetaArgs(name=names.OPERATOR, namespace=names.SYSTEM_NAMESPACE, labels=LABELS),
            data=data,
            opts=inside,
        )
        self.deployment = Deployment(
            names.OPERATOR,
            # `trainyard adopt --back` scales it down, and the next `up` is to scale it up again.
            metadata=ObjectMetaArgs(
                name=names.OPERATOR, namespace=names.SYSTEM_NAMESPACE, labels=LABELS, annotations=kept.FORCE
            ),
            spec=_deployment(args, "".join(data.values())),
            # On the way down the operator goes before its rights do.
            opts=pulumi.ResourceOptions(
                parent=self,
                depends_on=[account, configuration, *certificate, *rights, *protection, *after],
                custom_timeouts=pulumi.CustomTimeouts(create="5m", update="5m"),
            ),
        )
        if ports := _service_ports(args):
            Service(
                names.OPERATOR,
                metadata=ObjectMetaArgs(name=names.OPERATOR, namespace=names.SYSTEM_NAMESPACE, labels=LABELS),
                spec=ServiceSpecArgs(selector=LABELS, ports=ports),
                opts=pulumi.ResourceOptions(parent=self, depends_on=[self.deployment]),
            )
        self.namespace = pulumi.Output.from_input(names.SYSTEM_NAMESPACE)
        self.register_outputs({"namespace": self.namespace})

    def _protection(self, args: OperatorArgs, inside: pulumi.ResourceOptions) -> list[pulumi.Resource]:
        of_the_cluster: list[protection.Manifest] = []
        if args.priority_class:
            of_the_cluster.append(protection.priority_class(names.OPERATOR, LABELS))
        if args.flow_schemas:
            of_the_cluster += protection.flow_schemas(names.OPERATOR, names.SYSTEM_NAMESPACE, LABELS)
        found: list[pulumi.Resource] = [
            declare(manifest, pulumi.ResourceOptions(parent=self)) for manifest in of_the_cluster
        ]
        if args.disruption_budget and args.replicas > 1:
            found.append(
                declare(protection.disruption_budget(names.OPERATOR, names.SYSTEM_NAMESPACE, LABELS), inside)
            )
        return found

    def _cluster_rights(self, rules: rbac.Rules, opts: pulumi.ResourceOptions) -> list[pulumi.Resource]:
        metadata = ObjectMetaArgs(name=names.OPERATOR, labels=LABELS)
        role = ClusterRole(
            names.OPERATOR, metadata=metadata, rules=[PolicyRuleArgs(**rule) for rule in rules], opts=opts
        )
        binding = ClusterRoleBinding(
            names.OPERATOR,
            metadata=metadata,
            role_ref=RoleRefArgs(api_group=RBAC_GROUP, kind="ClusterRole", name=names.OPERATOR),
            subjects=[_subject()],
            opts=opts,
        )
        return [role, binding]

    def _rights(
        self,
        name: str,
        namespace: str,
        rules: rbac.Rules,
        opts: pulumi.ResourceOptions,
        called: str = names.OPERATOR,
    ) -> list[pulumi.Resource]:
        metadata = ObjectMetaArgs(name=called, namespace=namespace, labels=LABELS)
        role = Role(name, metadata=metadata, rules=[PolicyRuleArgs(**rule) for rule in rules], opts=opts)
        binding = RoleBinding(
            name,
            metadata=metadata,
            role_ref=RoleRefArgs(api_group=RBAC_GROUP, kind="Role", name=called),
            subjects=[_subject()],
            opts=opts,
        )
        return [role, binding]


def install(assembly: Assembly) -> None:
    """Install the operator."""
    stack = assembly.stack
    tenants = assembly.find(Tenants)
    args = OperatorArgs.of(
        stack.operator,
        stack.admission,
        stack.cluster,
        controllers=stack.controllers,
        policies=assembly.rules,
        tenants=tenants.namespaces if tenants else {},
        after=assembly.after(System, Crds, JobSet, Catalog, kubeflow.Kubeflow),
    )
    operator = assembly.add(Operator("operator", args, assembly.options))
    [system] = assembly.after(System)
    assembly.served.append(Served(names.SYSTEM_NAMESPACE, system, served_ports(stack)))
    pulumi.export("operatorNamespace", operator.namespace)


def _data(args: OperatorArgs) -> dict[str, str]:
    """The files that it is told by."""
    configuration = args.configuration.model_dump(by_alias=True, exclude_none=True, include=FROM_STACK)
    data = {CONFIGURATION: documents.dump([configuration])}
    if args.policies is not None:
        data[POLICIES] = documents.dump(
            [args.policies.model_dump(mode="json", by_alias=True, exclude_none=True)]
        )
    return data


def _subject() -> SubjectArgs:
    return SubjectArgs(kind="ServiceAccount", name=names.OPERATOR, namespace=names.SYSTEM_NAMESPACE)


def _service_ports(args: OperatorArgs) -> list[ServicePortArgs]:
    ports = [
        ("webhook", 443, names.WEBHOOK_PORT, args.admission),
        ("status", names.STATUS_PORT, names.STATUS_PORT, args.reports),
    ]
    return [
        ServicePortArgs(name=name, port=port, target_port=target, protocol="TCP")
        for name, port, target, wanted in ports
        if wanted
    ]


def _deployment(args: OperatorArgs, configuration: str) -> DeploymentSpecArgs:
    digest = hashlib.sha256(configuration.encode()).hexdigest()[:16]
    own_priority = {"priority_class_name": names.OPERATOR} if args.priority_class else {}
    return DeploymentSpecArgs(
        replicas=args.replicas,
        selector=LabelSelectorArgs(match_labels=LABELS),
        # A replica more for the time of an update, never one less.
        strategy=DeploymentStrategyArgs(
            type="RollingUpdate", rolling_update=RollingUpdateDeploymentArgs(max_surge=1, max_unavailable=0)
        ),
        template=PodTemplateSpecArgs(
            metadata=ObjectMetaArgs(labels=LABELS, annotations={DIGEST: digest}),
            spec=PodSpecArgs(
                service_account_name=names.OPERATOR,
                **{**pods.spec(args.controllers), **own_priority},
                automount_service_account_token=True,
                security_context=PodSecurityContextArgs(
                    run_as_non_root=True,
                    run_as_user=args.user,
                    run_as_group=args.user,
                    seccomp_profile=SeccompProfileArgs(type="RuntimeDefault"),
                ),
                topology_spread_constraints=[
                    TopologySpreadConstraintArgs(
                        max_skew=1,
                        topology_key=names.HOSTNAME_LABEL,
                        when_unsatisfiable="ScheduleAnyway",
                        label_selector=LabelSelectorArgs(match_labels=LABELS),
                    )
                ],
                containers=[_container(args)],
                volumes=_volumes(args),
            ),
        ),
    )


def _volumes(args: OperatorArgs) -> list[VolumeArgs]:
    volumes = [
        VolumeArgs(name="tmp", empty_dir=EmptyDirVolumeSourceArgs()),
        VolumeArgs(name="configuration", config_map=ConfigMapVolumeSourceArgs(name=names.OPERATOR)),
    ]
    if args.cert_manager:
        source = SecretVolumeSourceArgs(secret_name=cert_manager.secret(names.OPERATOR))
        volumes.append(VolumeArgs(name="certificate", secret=source))
    return volumes


def _mounts(args: OperatorArgs) -> list[VolumeMountArgs]:
    mounts = [
        VolumeMountArgs(name="tmp", mount_path="/tmp"),  # noqa: S108 (the container's own)
        VolumeMountArgs(name="configuration", mount_path=CONFIGURATION_FOLDER, read_only=True),
    ]
    if args.cert_manager:
        mounts.append(VolumeMountArgs(name="certificate", mount_path=CERTIFICATE_FOLDER, read_only=True))
    return mounts


def _container(args: OperatorArgs) -> ContainerArgs:
    return ContainerArgs(
        name="operator",
        image=args.image,
        image_pull_policy=str(args.image_pull_policy),
        args=[f"--config={CONFIGURATION_FOLDER}/{CONFIGURATION}", *args.arguments],
        env=[
            EnvVarArgs(
                name="POD_NAMESPACE",
                value_from=EnvVarSourceArgs(
                    field_ref=ObjectFieldSelectorArgs(api_version="v1", field_path="metadata.namespace")
                ),
            ),
        ],
        ports=[
            ContainerPortArgs(name=name, container_port=port, protocol="TCP")
            for name, port, wanted in (
                ("http", names.METRICS_PORT, True),
                ("webhook", names.WEBHOOK_PORT, args.admission),
                ("status", names.STATUS_PORT, args.reports),
                ("metrics", names.SECURE_METRICS_PORT, args.asks_readers),
            )
            if wanted
        ],
        liveness_probe=ProbeArgs(
            http_get=HTTPGetActionArgs(path="/healthz", port=names.METRICS_PORT),
            period_seconds=20,
            timeout_seconds=5,
        ),
        readiness_probe=ProbeArgs(
            http_get=HTTPGetActionArgs(path="/readyz", port=names.METRICS_PORT),
            period_seconds=5,
            timeout_seconds=5,
        ),
        resources=ResourceRequirementsArgs(
            requests={"cpu": args.resources.cpu, "memory": args.resources.memory},
            limits={"memory": args.resources.memory},
        ),
        security_context=SecurityContextArgs(
            allow_privilege_escalation=False,
            read_only_root_filesystem=True,
            run_as_non_root=True,
            capabilities=CapabilitiesArgs(drop=["ALL"]),
        ),
        volume_mounts=_mounts(args),
    )
