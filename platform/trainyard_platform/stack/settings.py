"""What a stack may set: the typed form of `trainyard:platform` in `stacks/Pulumi.<stack>.yaml`.

`program` reads it once, with `load`, and passes values to the components;
nothing else reads Pulumi's configuration. Unknown keys and invalid values end
the program with one message that names all of them, so that a typo never
reaches a cluster.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Annotated, Final

from pydantic import Field, ValidationError, model_validator

from trainyard_api import names, places, quantity, strict
from trainyard_api.pools import NodePool
from trainyard_api.similar import hint
from trainyard_api.strict import QUANTITY, StrictModel
from trainyard_policies import queues as policies_queues
from trainyard_policies.settings import Policies

from ..errors import PlatformError
from . import accelerators, chart_values, operator_memory, quotas, release_images
from . import node_pools as clouds
from . import tenants as tenancy
from .accelerators import Accelerator, AcceleratorKind, DevicePlugin
from .admission import Admission
from .coscheduling import Coscheduling
from .data_cache import DataCache
from .drift import Drift
from .external_secrets import KEY_WORDS
from .jobset import JobSet
from .kueue import OPENSHIFTS_KUEUE, OPENSHIFTS_LABEL, Integration, Kueue, holds_jobsets
from .observability import Observability
from .operator import NAMESPACE, Operator
from .pod_settings import Controllers
from .queues import Queues
from .release_images import ReleaseImages
from .runtimes import RuntimeOverlay
from .storage import Storage
from .tenants import CIDR_WORDS, NAME, Tenant
from .value_types import DURATION, IMAGE, NAME_WORDS, REGISTRY
from .volcano import Volcano

CONFIG_KEY = "trainyard:platform"
CLUSTER: Final = "cluster"
"""The name of Pulumi's provider of the cluster, in the program and in the state."""
IDENTITY: Final = "clusterIdentity"
"""The stack's output that says which cluster it is rolled out to."""
IDENTITY_VARIABLE: Final = "TRAINYARD_CLUSTER_IDENTITY"
"""The environment variable with that output, as JSON: `trainyard up` asks the cluster, not the program."""
KUBERNETES = r"^1\.[0-9]+$"
PATH = r"^[/~]"


TenantName = Annotated[str, Field(pattern=NAME)]

_PINNED = (
    "a stack cannot choose it: platform/trainyard_platform/artifacts.yaml pins one version for all stacks"
)
_PATTERN_WORDS = {
    KUBERNETES: "must be a minor version such as '1.35', in quotes",
    PATH: "must be an absolute path, or begin with ~/, such as ~/.kube/config",
    DURATION: "must be a duration such as 30m or 1h30m",
    NAME: "must be a name of small letters, digits and hyphens, such as team-a",
    NAMESPACE: 'must be the name of a namespace, such as team-a, or "*" for all of them',
    QUANTITY: "must be a Kubernetes quantity such as 500m or 2Gi",
    **clouds.PATTERN_WORDS,
    **NAME_WORDS,
    **KEY_WORDS,
    **CIDR_WORDS,
    **release_images.WORDS,
    IMAGE: "must be an image with its registry and its tag or digest, such as docker.io/library/busybox:1.37",
}


class ArtifactSource(StrEnum):
    """Source of the charts and manifests of upstream projects."""

    UPSTREAM = "upstream"
    MIRROR = "mirror"
    FOLDER = "folder"


class Distribution(StrEnum):
    """Distribution of Kubernetes that the cluster runs."""

    KUBERNETES = "kubernetes"
    OPENSHIFT = "openshift"


class Cluster(clouds.Clouds):
    """The cluster that the stack is deployed to."""

    distribution: Distribution = Distribution.KUBERNETES
    """With openshift, containers run as the users that OpenShift assigns, and no manifest sets a user."""
    version: str | None = Field(default=None, pattern=KUBERNETES)
    """Minor version of Kubernetes, such as 1.35. Preview refuses components that do not support it."""
    identifier: str | None = Field(default=None, min_length=1)
    """Name of the cluster. Default: the stack's name. Never change it: a new name replaces all objects."""
    kubeconfig: str | None = Field(default=None, pattern=PATH)
    """Path of the kubeconfig, absolute or with ~/. Default: $KUBECONFIG, then ~/.kube/config."""
    context: str | None = Field(default=None, min_length=1)
    """Context in the kubeconfig. Default: the current context."""

    @property
    def assigns_users(self) -> bool:
        """Whether the cluster assigns the users of containers, and refuses pods that set a user."""
        return self.distribution is Distribution.OPENSHIFT

    @property
    def dns_ports(self) -> tuple[int, ...]:
        """Ports of the cluster's DNS. In OpenShift, the pods listen on another port than the Service."""
        return (53, 5353) if self.distribution is Distribution.OPENSHIFT else (53,)


class Artifacts(StrictModel):
    """Source of the charts, manifests and images that `artifacts.yaml` pins, and Trainyard's own images."""

    source: ArtifactSource = ArtifactSource.UPSTREAM
    """upstream: the projects' own addresses. mirror: `registry` and `manifests`. folder: local files."""
    registry: str | None = Field(default=None, min_length=1, pattern=REGISTRY)
    """With source mirror: registry and prefix, without a scheme. They come before upstream's full names."""
    manifests: str | None = Field(default=None, pattern=r"^https://\S+[^/]$")
    """With source mirror: URL of the folder with the files <artifact>/<version>/<path>."""
    folder: str | None = Field(default=None, min_length=1)
    """With source folder: folder with the files <artifact>/<version>/<path>, relative to Pulumi.yaml."""
    images: ReleaseImages = ()
    """Trainyard's own images: the lines of `images.txt` of a release, or copies of these images. They are the
    defaults of `operator.image`, `dataCache.initializerImage` and `dataCache.cacheImage`, and replace the
    images `docker.io/trainyard/...` of the catalog. Pods can use exactly these images, except `operator`,
    whatever `policies.parameters.registries` contains."""

    @model_validator(mode="after")
    def _source_is_complete(self) -> "Artifacts":
        required = {
            ArtifactSource.UPSTREAM: (),
            ArtifactSource.MIRROR: ("registry", "manifests"),
            ArtifactSource.FOLDER: ("folder",),
        }[self.source]
        for key in ("registry", "manifests", "folder"):
            if key in required and getattr(self, key) is None:
                raise ValueError(f"source {self.source} needs the key {key!r}")
            if key not in required and getattr(self, key) is not None:
                raise ValueError(f"source {self.source} has no use for the key {key!r}: remove it")
        return self


class StackSettings(StrictModel):
    """Settings of the platform in a stack file."""

    cluster: Cluster = Cluster()
    """The cluster that the stack is deployed to."""
    artifacts: Artifacts = Artifacts()
    """Source of upstream's charts, manifests and images, and Trainyard's own images."""
    controllers: Controllers = Controllers()
    """Scheduling and image pull settings of the platform's own pods."""
    jobset: JobSet = Field(default=JobSet(), alias="jobset")
    """JobSet's controller."""
    kueue: Kueue = Kueue()
    """Kueue, which queues TrainJobs and admits them within their quota."""
    volcano: Volcano = Volcano()
    """Volcano, a gang scheduler: it starts the pods of a job together or not at all."""
    coscheduling: Coscheduling = Coscheduling()
    """Coscheduling, a smaller gang scheduler than Volcano."""
    queues: Queues = Queues()
    """Queues and their quota. Needs Kueue."""
    node_pools: dict[str, NodePool] = Field(default={})
    """Node pools, by name. Each pool is also a ResourceFlavor of Kueue."""
    accelerators: dict[AcceleratorKind, Accelerator] = Field(default={})
    """Kinds of accelerators in the cluster, with their device plugins."""
    tenants: dict[TenantName, Tenant] = Field(default={})
    """Teams, by the name of their namespace. Needs Kueue."""
    operator: Operator
    """Trainyard's operator."""
    admission: Admission = Admission()
    """Webhooks that check TrainJobs and runtimes before the API server stores them."""
    network_policies: bool = True
    """Whether NetworkPolicies allow traffic to the platform's own pods only on the ports that they serve."""
    storage: Storage = Storage()
    """StorageClasses for the catalog's PersistentVolumeClaims, by role, and the object store."""
    data_cache: DataCache = DataCache()
    """LeaderWorkerSet, for runtimes that stream a table from a cache."""
    observability: Observability = Observability()
    """Monitors, alerts and dashboards."""
    runtimes: dict[str, RuntimeOverlay] = Field(default={})
    """Changes to runtimes of the catalog, by name. A runtime without an entry is installed unchanged."""
    policies: Policies = Policies()
    """Levels and parameters of the rules for runtimes and TrainJobs."""
    drift: Drift = Drift()
    """Settings of `trainyard drift`, which compares the cluster with git."""

    @model_validator(mode="before")
    @classmethod
    def _release_images_are_defaults(cls, values: object) -> object:
        return release_images.filled(values) if isinstance(values, Mapping) else values

    @property
    def kueue_namespace(self) -> str:
        """The namespace of Kueue's controller."""
        is_openshift = self.cluster.distribution is Distribution.OPENSHIFT
        default = OPENSHIFTS_KUEUE if is_openshift else names.KUEUE_NAMESPACE
        return names.KUEUE_NAMESPACE if self.kueue.installs else self.kueue.namespace or default

    @property
    def integrations(self) -> tuple[Integration, ...]:
        """The kinds of jobs that Kueue queues."""
        if self.kueue.integrations is not None:
            return self.kueue.integrations
        by_trainjob = not self.kueue.installs or self.queues.multi_kueue.is_used
        return (Integration.TRAINJOB if by_trainjob else Integration.JOBSET,)

    @property
    def queues_hold_jobsets(self) -> bool:
        """Whether queues hold the JobSets of TrainJobs, and not the TrainJobs."""
        return self.kueue.enabled and holds_jobsets(self.integrations)

    @property
    def rules(self) -> Policies:
        """The rules as every gate enforces them: with the stack's images, its node pools and its Kueue."""
        queues = policies_queues.Queues.of(self.queues.model_dump(by_alias=True))
        policies = self.policies.with_images(self.artifacts.images)
        return policies.with_pools(self.node_pools, queues).with_kueue(self.kueue_namespace)

    @property
    def images_of_trainyard(self) -> dict[str, str | None]:
        """The image of each setting in `release_images.SETTINGS`."""
        return {
            "operator.image": self.operator.image,
            "dataCache.initializerImage": self.data_cache.initializer_image,
            "dataCache.cacheImage": self.data_cache.cache_image,
        }

    @property
    def labels_of_tenants(self) -> dict[str, str]:
        """Labels of tenants' namespaces, by which the cluster's own tools select them."""
        by_label = self.kueue_namespace == OPENSHIFTS_KUEUE
        return {OPENSHIFTS_LABEL: "true"} if by_label else {}

    def problems(self) -> Iterator[str]:
        """Contradictions between sections of the settings, each with its path."""
        for part, used in (("queues", not self.queues.is_empty), ("tenants", bool(self.tenants))):
            if used and not self.kueue.enabled:
                yield f"{part}: need Kueue: set kueue.enabled to true, or remove them"
        if self.queues.multi_kueue.is_used and self.queues_hold_jobsets:
            yield (
                f"queues.multiKueue: needs {Integration.TRAINJOB} in kueue.integrations, since what is "
                "beside a JobSet (the key and the hosts of an MPI job, the PodGroup of a gang) does not "
                "travel with it"
            )
        for problem in self.kueue.problems():
            yield f"kueue.{problem}"
        for key in self.kueue.useless():
            yield f"kueue.{key}: kueue.controller {self.kueue.controller} has no use for it: remove it"
        for problem in tenancy.problems(self.tenants):
            yield f"tenants.{problem}"
        yield from self._tenants_without_kueue()
        yield from self._problems_of_memory()
        for problem in self.queues.problems(self.node_pools, fair_sharing=self.kueue.fair_sharing):
            yield f"queues.{problem}"
        yield from quotas.problems(self.queues, self.node_pools)
        if self.kueue.enabled:
            yield from quotas.problems_of_flavors(self.queues, self.node_pools)
        yield from self._local_queues_declared_twice()
        for part, artifact in chart_values.CHARTS.items():
            yield from chart_values.problems(artifact, getattr(self, part).values, f"{part}.values")
        yield from accelerators.problems(self.accelerators, self.node_pools)
        yield from clouds.problems(self.node_pools, self.cluster)
        queues = list(self.queues.cluster_queues)
        for place, queue in self._users_of_queues():
            if queue not in queues:
                yield f"{place}: there is no cluster queue {queue!r}{hint(queue, queues)}"

    @property
    def held(self) -> int:
        """The most TrainJobs and TrainingRuntimes that all tenants together may have."""
        return sum(tenant.held for tenant in self.tenants.values())

    def _problems_of_memory(self) -> Iterator[str]:
        needed, memory = operator_memory.needed(self.held), self.operator.resources.memory
        if (
            self.tenants
            and memory is not None
            and quantity.parse(memory).ceil() < needed * operator_memory.MIB
        ):
            yield (
                f"operator.resources.memory: {memory} is too little for what the tenants may hold: "
                f"{self.held} TrainJobs and TrainingRuntimes need up to {needed}Mi in each replica; leave it "
                f"out, say {needed}Mi or more, or lower {tenancy.TRAINJOBS} and {tenancy.TRAINING_RUNTIMES} "
                "in tenants.<name>.resourceQuota"
            )

    def _tenants_without_kueue(self) -> Iterator[str]:
        for name, tenant in self.tenants.items():
            labels = tenant.labels_of_namespace(name, self.labels_of_tenants)
            if self.kueue.enabled and not self.kueue.manages(name, labels):
                yield (
                    f"tenants.{name}: kueue.namespaceSelector does not select the namespace {name}, so Kueue "
                    f"would ignore its jobs: add what the selector needs to tenants.{name}.labels, or change "
                    "kueue.namespaceSelector"
                )

    def _local_queues_declared_twice(self) -> Iterator[str]:
        """Without one of two declarations, Pulumi would delete the LocalQueue of the other."""
        declared = {(name, tenant.queue): f"tenants.{name}" for name, tenant in self.tenants.items()}
        for position, queue in enumerate(self.queues.local_queues):
            place = f"queues.localQueues[{position}]"
            first = declared.setdefault((queue.namespace, queue.name), place)
            if first != place:
                yield (
                    f"{place}: {first} already declares the LocalQueue {queue.name} in {queue.namespace}: "
                    "remove one of them"
                )

    def advice(self) -> dict[str, str]:
        """Valid settings that have no effect, or not the one that they seem to have: by path, a sentence with
        the way out.
        """
        always = (*self._images_named_twice(), *self._plugins_without_rights())
        if not (self.kueue.enabled and self.queues.cluster_queues):
            return dict(always)
        queues = (*self._unused_pools(), *self._pools_in_others(), *self._ignored_local_queues())
        return dict((*always, *queues))

    def _images_named_twice(self) -> Iterator[tuple[str, str]]:
        listed = release_images.by_name(self.artifacts.images)
        for place, image in self.images_of_trainyard.items():
            name = release_images.SETTINGS[place]
            # Runtimes of the catalog use the listed initializers, whatever the data cache uses.
            if name in listed and image != listed[name] and name != release_images.INITIALIZERS:
                yield place, f"takes precedence over the image {name} in artifacts.images: remove one of them"

    def _plugins_without_rights(self) -> Iterator[tuple[str, str]]:
        for kind, accelerator in self.accelerators.items():
            if self.cluster.assigns_users and accelerator.device_plugin is DevicePlugin.INSTALL:
                yield (
                    f"accelerators.{kind}.devicePlugin",
                    "OpenShift refuses the pods of a device plugin, which mount a folder of their node, "
                    "unless you allow it with a SecurityContextConstraints: set shipped, and let an operator "
                    "of the vendor bring the plugin",
                )

    def _unused_pools(self) -> Iterator[tuple[str, str]]:
        for name, pool in self.node_pools.items():
            if pool.nodes and not self._is_used(name):
                yield (
                    f"nodePools.{name}",
                    f"no cluster queue has quota for its {pool.nodes} nodes, so no job of a queue can use "
                    f"them: give the pool to a queue with nodePools.{name}.quota",
                )

    def _pools_in_others(self) -> Iterator[tuple[str, str]]:
        used = {name: pool for name, pool in self.node_pools.items() if self._is_used(name)}
        for name, other in quotas.overlaps(used).items():
            yield (
                f"nodePools.{name}",
                f"its nodeLabels also select the nodes of the pool {other}, so these nodes can be in the "
                "quota twice: add a label that only nodes of this pool have, or declare one pool and divide "
                "it with `quota`",
            )

    def _ignored_local_queues(self) -> Iterator[tuple[str, str]]:
        for position, local in enumerate(self.queues.local_queues):
            is_tenants = local.namespace in self.tenants
            if not is_tenants and self.kueue.installs and self.kueue.never_manages(local.namespace):
                yield (
                    f"queues.localQueues[{position}]",
                    f"kueue.namespaceSelector does not select the namespace {local.namespace}, so Kueue "
                    "never admits a job of this queue: declare the namespace in tenants, or change "
                    "kueue.namespaceSelector",
                )

    def _is_used(self, name: str) -> bool:
        """Whether a queue has quota in the pool."""
        pool = self.node_pools[name]
        return name in self.queues.flavors_with_quota or any(map(pool.nodes_of, pool.quota))

    def _users_of_queues(self) -> Iterator[tuple[str, str]]:
        for name, pool in self.node_pools.items():
            for position, quota in enumerate(pool.quota):
                yield f"nodePools.{name}.quota[{position}].clusterQueue", quota.cluster_queue
        for name, tenant in self.tenants.items():
            yield f"tenants.{name}.clusterQueue", tenant.cluster_queue


class InvalidStackError(PlatformError):
    """A stack's settings are invalid, perhaps in several places."""

    def __init__(self, stack: str, problems: Sequence[str]) -> None:
        super().__init__(
            "\n".join([f"{_file(stack)} is not valid:", *(f"  {problem}" for problem in problems)])
        )
        self.problems = tuple(problems)
        """A sentence each, that begins with the place: `trainyard:platform.key[0].key: `."""


def load(text: str | None, stack: str) -> StackSettings:
    """Read the value of `trainyard:platform` (JSON, as Pulumi passes it), or end with one message."""
    if text is None:
        raise PlatformError(
            f"{_file(stack)}: the key {CONFIG_KEY} is missing; "
            "see stacks/Pulumi.onprem.yaml for a short example"
        )
    try:
        value = json.loads(text)
    except json.JSONDecodeError:
        value = text
    return of(value, stack)


def of(value: object, stack: str) -> StackSettings:
    """The settings in the value of `trainyard:platform`, or one message with everything that is wrong."""
    try:
        stack_settings = StackSettings.model_validate(value, by_alias=True, by_name=False)
        problems = [f"{CONFIG_KEY}.{problem}" for problem in stack_settings.problems()]
    except ValidationError as error:
        problems = [
            f"{strict.path(CONFIG_KEY, location)}: {_PINNED if _is_version(location) else sentence}"
            for location, sentence in strict.sentences(error, StackSettings, _PATTERN_WORDS)
        ]
    if problems:
        raise InvalidStackError(stack, problems)
    return stack_settings


def _is_version(location: strict.Location) -> bool:
    return location[-1:] == ("version",) and location[0] not in ("cluster", "nodePools")


def _file(stack: str) -> str:
    return f"stacks/{places.stack_file(stack)}"
