"""Trainyard's operator: its namespace, identity, rights and Deployment.

The namespace outlives the stack (`kept`): it holds the runtime revisions that
running jobs were built from, and the next `up` needs them.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import pulumi
from pulumi_kubernetes.apps.v1 import (
    Deployment,
    DeploymentSpecArgs,
    DeploymentStrategyArgs,
    RollingUpdateDeploymentArgs,
)
from pulumi_kubernetes.core.v1 import (
    CapabilitiesArgs,
    ContainerArgs,
    ContainerPortArgs,
    EmptyDirVolumeSourceArgs,
    EnvVarArgs,
    EnvVarSourceArgs,
    HTTPGetActionArgs,
    Namespace,
    ObjectFieldSelectorArgs,
    PodSecurityContextArgs,
    PodSpecArgs,
    PodTemplateSpecArgs,
    ProbeArgs,
    ResourceRequirementsArgs,
    SeccompProfileArgs,
    SecurityContextArgs,
    ServiceAccount,
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

from .. import rbac, settings
from ..model import ComputeResources, PullPolicy
from ..settings import KubeflowNamespace
from . import kept, kubeflow

NAME = "trainyard-operator"
NAMESPACE = "trainyard-system"
PORT = 8080
WEBHOOK_PORT = 9443
USER = 65532
RBAC_GROUP = "rbac.authorization.k8s.io"

LABELS = {"app.kubernetes.io/name": NAME, "app.kubernetes.io/part-of": "trainyard"}


@dataclass(frozen=True, kw_only=True)
class OperatorArgs:
    """What the operator component needs from the stack."""

    image: str
    image_pull_policy: PullPolicy
    replicas: int
    resources: ComputeResources
    arguments: Sequence[str] = ()
    admission: bool = True
    """Whether it answers webhooks."""
    kubeflow_namespace: str | None = None
    """Namespace where upstream's controller would hold its Lease; None if the cluster has none."""
    after: Sequence[pulumi.Resource] = ()

    @classmethod
    def of(
        cls,
        operator: settings.Operator,
        admission: settings.Admission,
        *,
        after: Sequence[pulumi.Resource],
    ) -> "OperatorArgs":
        """What the stack says."""
        absent = operator.kubeflow_namespace is KubeflowNamespace.ABSENT
        return cls(
            image=operator.image,
            image_pull_policy=operator.image_pull_policy,
            replicas=operator.replicas,
            resources=operator.resources,
            arguments=operator.args,
            admission=admission.enabled,
            kubeflow_namespace=None if absent else kubeflow.NAMESPACE,
            after=after,
        )


class Operator(pulumi.ComponentResource):
    """Installs the operator and waits until it is ready."""

    namespace: pulumi.Output[str]
    deployment: Deployment

    def __init__(self, name: str, args: OperatorArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("trainyard:platform:Operator", name, {}, opts)
        after = list(args.after)
        namespace = Namespace(
            NAMESPACE,
            metadata=ObjectMetaArgs(
                name=NAMESPACE,
                labels={**LABELS, "pod-security.kubernetes.io/enforce": "restricted"},
                annotations=kept.ANNOTATIONS,
            ),
            opts=kept.options(self, after),
        )
        inside = pulumi.ResourceOptions(parent=self, depends_on=[namespace, *after])
        account = ServiceAccount(
            NAME,
            metadata=ObjectMetaArgs(name=NAME, namespace=NAMESPACE, labels=LABELS),
            automount_service_account_token=False,
            opts=inside,
        )
        cluster_rules, own_rules = list(rbac.CLUSTER), list(rbac.OWN_NAMESPACE)
        if args.admission:
            cluster_rules += rbac.ADMISSION
            own_rules += rbac.ADMISSION_OWN_NAMESPACE
        if not args.kubeflow_namespace:
            # In a namespace that is not there no Role can be: the one Lease is
            # then allowed by its name, wherever it is.
            cluster_rules += rbac.UPSTREAM
        rights = [
            *self._cluster_rights(cluster_rules, inside),
            *self._rights(NAME, NAMESPACE, own_rules, inside),
        ]
        if args.kubeflow_namespace:
            rights += self._rights(f"{NAME}-kubeflow", args.kubeflow_namespace, rbac.UPSTREAM, inside)
        self.deployment = Deployment(
            NAME,
            metadata=ObjectMetaArgs(name=NAME, namespace=NAMESPACE, labels=LABELS),
            spec=_deployment(args),
            # On the way down the operator goes before its rights do.
            opts=pulumi.ResourceOptions(
                parent=self,
                depends_on=[namespace, account, *rights, *after],
                custom_timeouts=pulumi.CustomTimeouts(create="5m", update="5m"),
            ),
        )
        self.namespace = pulumi.Output.from_input(NAMESPACE)
        self.register_outputs({"namespace": self.namespace})

    def _cluster_rights(self, rules: rbac.Rules, opts: pulumi.ResourceOptions) -> list[pulumi.Resource]:
        metadata = ObjectMetaArgs(name=NAME, labels=LABELS)
        role = ClusterRole(
            NAME, metadata=metadata, rules=[PolicyRuleArgs(**rule) for rule in rules], opts=opts
        )
        binding = ClusterRoleBinding(
            NAME,
            metadata=metadata,
            role_ref=RoleRefArgs(api_group=RBAC_GROUP, kind="ClusterRole", name=NAME),
            subjects=[_subject()],
            opts=opts,
        )
        return [role, binding]

    def _rights(
        self, name: str, namespace: str, rules: rbac.Rules, opts: pulumi.ResourceOptions
    ) -> list[pulumi.Resource]:
        metadata = ObjectMetaArgs(name=NAME, namespace=namespace, labels=LABELS)
        role = Role(name, metadata=metadata, rules=[PolicyRuleArgs(**rule) for rule in rules], opts=opts)
        binding = RoleBinding(
            name,
            metadata=metadata,
            role_ref=RoleRefArgs(api_group=RBAC_GROUP, kind="Role", name=NAME),
            subjects=[_subject()],
            opts=opts,
        )
        return [role, binding]


def _subject() -> SubjectArgs:
    return SubjectArgs(kind="ServiceAccount", name=NAME, namespace=NAMESPACE)


def _deployment(args: OperatorArgs) -> DeploymentSpecArgs:
    return DeploymentSpecArgs(
        replicas=args.replicas,
        selector=LabelSelectorArgs(match_labels=LABELS),
        # A replica more for the time of an update, never one less.
        strategy=DeploymentStrategyArgs(
            type="RollingUpdate", rolling_update=RollingUpdateDeploymentArgs(max_surge=1, max_unavailable=0)
        ),
        template=PodTemplateSpecArgs(
            metadata=ObjectMetaArgs(labels=LABELS),
            spec=PodSpecArgs(
                service_account_name=NAME,
                automount_service_account_token=True,
                security_context=PodSecurityContextArgs(
                    run_as_non_root=True,
                    run_as_user=USER,
                    run_as_group=USER,
                    seccomp_profile=SeccompProfileArgs(type="RuntimeDefault"),
                ),
                topology_spread_constraints=[
                    TopologySpreadConstraintArgs(
                        max_skew=1,
                        topology_key="kubernetes.io/hostname",
                        when_unsatisfiable="ScheduleAnyway",
                        label_selector=LabelSelectorArgs(match_labels=LABELS),
                    )
                ],
                containers=[_container(args)],
                volumes=[VolumeArgs(name="tmp", empty_dir=EmptyDirVolumeSourceArgs())],
            ),
        ),
    )


def _container(args: OperatorArgs) -> ContainerArgs:
    return ContainerArgs(
        name="operator",
        image=args.image,
        image_pull_policy=str(args.image_pull_policy),
        args=[*([] if args.admission else ["--no-webhook"]), *args.arguments],
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
            for name, port in (("http", PORT), ("webhook", WEBHOOK_PORT))
            if name == "http" or args.admission
        ],
        liveness_probe=ProbeArgs(
            http_get=HTTPGetActionArgs(path="/healthz", port=PORT), period_seconds=20, timeout_seconds=5
        ),
        readiness_probe=ProbeArgs(
            http_get=HTTPGetActionArgs(path="/readyz", port=PORT), period_seconds=5, timeout_seconds=5
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
        volume_mounts=[VolumeMountArgs(name="tmp", mount_path="/tmp")],  # noqa: S108 (the container's own)
    )
