"""The rules' parameters for a stack: `policies.parameters` in a stack file, or a pack's config.

Closed and typed: a key that does not exist is an error with its path, in a
stack file as in `--policy-pack-config`.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from pydantic import Field, ValidationError, model_validator

from trainyard_api import names, pools, quantity, strict
from trainyard_api.pools import NodePool, Taint
from trainyard_api.strict import Quantity, StrictModel

from . import images
from .queues import Queues
from .site import parameters as _site
from .site.parameters import PARAMETERS


def _kueue_in(namespace: str) -> str:
    return f"system:serviceaccount:{namespace}:{names.KUEUE_CONTROLLER}"


KUEUE: Final = _kueue_in(names.KUEUE_NAMESPACE)
"""Kueue, which writes a flavor's node labels and tolerations into the TrainJobs that it admits."""


_of_the_site: Mapping[str, Any] = {}


_OF_ANY: Final[Mapping[str, str]] = {"cpu": "4096", "memory": "128Ti"}
"""More than any machine has."""


_PODS_OF_A_NODE: Final = 110
"""As kubelet has it unless told otherwise; https://kubernetes.io/docs/setup/best-practices/cluster-large/."""


class Pool(StrictModel):
    """A pool of equal nodes that training can run on."""

    name: str = Field(min_length=1)
    """Name of the pool in messages."""
    labels: dict[str, str] = Field(default={})
    """Labels of each node in the pool."""
    taints: tuple[Taint, ...] = ()
    """Taints of each node in the pool."""
    adds_tolerations: bool = False
    """Whether Kueue's flavor or an admission plug-in adds the tolerations to pods."""
    resources: dict[str, Quantity] = Field(default={})
    """Resources of each node in the pool, by name, such as nvidia.com/gpu: "8"."""


class Parameters(StrictModel):
    """Parameters of the rules. The rules compare manifests with these parameters."""

    registries: tuple[str, ...] = (
        "docker.io/horovod",
        "docker.io/library",
        "docker.io/mpioperator",
        "docker.io/paddlepaddle",
        "docker.io/pytorch",
        "docker.io/tensorflow",
        names.CATALOG_IMAGES,
        "ghcr.io/kubeflow",
        "nvcr.io/nvidia",
        "registry.k8s.io",
    )
    """Registries from which pods can use images, or repositories in these registries, such as
    ghcr.io/example. An entry with a digest allows only this image. Default: the sources of the catalog's
    images. Do not list a whole registry in which everyone can publish."""
    frameworks: tuple[str, ...] = ()
    """Names of your own frameworks, in addition to the frameworks that Trainyard supports."""
    max_nodes: int = Field(default=10_000, ge=1)
    """Maximum number of training nodes of a runtime or a TrainJob. Each training node is a pod. Also the
    maximum number of pods of a ReplicatedJob that does not train, and of all such jobs with more than one pod
    together. Default: 110 for each node of `nodePools`, which is the number of pods that a node can run, but
    at most 10,000. Default without `nodePools`: 10,000, as in the operator."""
    max_processes_per_node: int | None = Field(default=None, ge=1)
    """Maximum number of processes per training node. Default: no limit."""
    max_resources: dict[str, Quantity] = Field(default={})
    """Maximum request of one training node for each resource, by resource name. Default for CPU and memory:
    the amounts of the largest machine in `nodePools`. Without `nodePools`, the default is more than any
    machine has."""
    longest_grace: int = Field(default=600, ge=0)
    """Maximum value of `terminationGracePeriodSeconds` of a pod, in seconds."""
    priority_classes: tuple[str, ...] | None = None
    """PriorityClasses that training pods can use. Default: every PriorityClass, except those with the prefix
    `system-` and the operator's own. The scheduler evicts pods with a lower priority for pods with a higher
    one, across tenants."""
    pools: tuple[Pool, ...] = ()
    """Pools in addition to those of `nodePools`. Without any pools, rules about pools do not apply."""
    exceptions_in: tuple[str, ...] = (names.CLUSTER_TRAINING_RUNTIME,)
    """Kinds of objects whose annotations can make exceptions to rules. List only kinds whose changes are
    reviewed."""
    longest_exception: int = Field(default=366, ge=1)
    """Maximum number of days from today until an exception ends."""
    controllers: tuple[str, ...] = (KUEUE,)
    """Names of controllers, as users of the API server, that change users' TrainJobs. The cluster does not
    check the requests of these controllers."""

    @model_validator(mode="before")
    @classmethod
    def _else_the_sites(cls, settings: object) -> object:
        """The folder `site` has the defaults."""
        if not isinstance(settings, Mapping):
            return settings
        names_of = {name: str(field.alias) for name, field in cls.model_fields.items()}
        left = {
            names_of[name]: value
            for name, value in _of_the_site.items()
            if name not in settings and names_of[name] not in settings
        }
        return {**left, **settings}

    @property
    def bounds(self) -> Mapping[str, str]:
        """The most that a node may request of each resource, also where neither stack nor pools say it."""
        return {**_OF_ANY, **self.max_resources}

    def with_images(self, listed: Iterable[str]) -> "Parameters":
        """These parameters, with these images, except the operator's, among the registries.

        With all images of Trainyard, the default registries are without those that the catalog names: another
        owner of this name can publish there, and no runtime of the catalog uses it.
        """
        parsed = {text: images.parse(text) for text in listed}
        registries = self.registries
        last_parts = {image.repository.rpartition("/")[2] for image in parsed.values()}
        if "registries" not in self.model_fields_set and last_parts.issuperset(names.RELEASE_IMAGES):
            registries = tuple(registry for registry in registries if registry != names.CATALOG_IMAGES)
        added = [
            text
            for text, image in parsed.items()
            if not image.repository.endswith(f"/{names.OPERATOR_IMAGE}")
            and not any(images.allows(registry, image) for registry in registries)
        ]
        allowed = (*registries, *added)
        return self if allowed == self.registries else self.model_copy(update={"registries": allowed})

    def with_pools(self, declared: Mapping[str, NodePool], queues: Queues) -> "Parameters":
        """These parameters, with a stack's node pools, and the limits that are computed from them."""
        if not declared:
            return self
        machines = [pool.machine for pool in declared.values()]
        largest = {
            "cpu": max((one.cpu for one in machines), key=_amount),
            "memory": max((one.memory for one in machines), key=_amount),
        }
        pods = _PODS_OF_A_NODE * sum(pool.nodes for pool in declared.values())
        fields_set = self.model_fields_set
        return self.model_copy(
            update={
                "pools": (*self.pools, *(_pool(*item, queues) for item in declared.items())),
                "max_nodes": self.max_nodes
                if "max_nodes" in fields_set
                else max(1, min(pods, self.max_nodes)),
                "max_resources": largest | self.max_resources,
            }
        )

    def with_kueue(self, namespace: str) -> "Parameters":
        """These parameters, for a Kueue in this namespace."""
        theirs = _kueue_in(namespace)
        controllers = tuple(theirs if one == KUEUE else one for one in self.controllers)
        return self.model_copy(update={"controllers": controllers})


def spelled(name: str) -> str:
    """A parameter's name as a stack file spells it."""
    return str(Parameters.model_fields[name].alias)


def _from_the_site() -> Mapping[str, Any]:
    """The parameters of the folder `site`; raises `SystemExit` if they are invalid."""
    try:
        Parameters.model_validate(PARAMETERS, by_alias=False, by_name=True)
    except ValidationError as error:
        problems = [
            f"{strict.path('', at)}: {sentence}" for at, sentence in strict.sentences(error, Parameters)
        ]
        of_a_clone = str(_site.__file__).endswith("trainyard_policies/site/parameters.py")
        folder = "policies/trainyard_policies/site" if of_a_clone else "policies/site"
        raise SystemExit(f"{folder}/parameters.py: {'; '.join(problems)}") from error
    return PARAMETERS


_of_the_site = _from_the_site()


def _amount(text: str) -> int:
    return quantity.parse(text).nano


def _pool(name: str, pool: NodePool, queues: Queues) -> Pool:
    return Pool(
        name=name,
        labels=pools.labels(name, pool),
        taints=pools.taints(pool),
        adds_tolerations=queues.add_tolerations(name, pool),
        resources=pools.resources(pool),
    )
