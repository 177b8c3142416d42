"""The properties of a runtime that a run needs: how it starts ranks, and its nodes' resources."""

from __future__ import annotations

from dataclasses import dataclass

from trainyard_api import names
from trainyard_api.json_types import Json

from .. import read


@dataclass(frozen=True, slots=True)
class Runtime:
    """A runtime as it is in the cluster."""

    manifest: Json

    @property
    def kind(self) -> str:
        """`ClusterTrainingRuntime` or `TrainingRuntime`."""
        return read.text(self.manifest, "kind")

    @property
    def name(self) -> str:
        """Its name."""
        return read.name(self.manifest)

    @property
    def policy(self) -> str:
        """Its ML policy, such as `torch`; empty for none."""
        policy = read.at(self.manifest, "spec", "mlPolicy")
        keys = [key for key in policy if key != "numNodes"] if isinstance(policy, dict) else []
        return str(keys[0]) if keys else ""

    @property
    def nodes(self) -> int:
        """Nodes of a TrainJob that does not say how many."""
        return read.number(self.manifest, "spec", "mlPolicy", "numNodes", default=1)

    @property
    def least_nodes(self) -> int:
        """Pods that train at least: a launcher that trains is never alone."""
        trains_too = read.at(self.manifest, "spec", "mlPolicy", "mpi", "runLauncherAsNode")
        return 2 if trains_too is True else 1

    @property
    def container(self) -> Json:
        """The container that trains; empty if it has none."""
        for job in read.objects(self.manifest, "spec", "template", "spec", "replicatedJobs"):
            template = read.at(job, "template")
            if read.texts(template, "metadata", "labels").get(names.ANCESTOR_LABEL) == names.ANCESTOR_TRAINER:
                for container in read.objects(template, "spec", "template", "spec", "containers"):
                    if container.get("name") == names.NODE:
                        return container
        return {}

    @property
    def command(self) -> tuple[str, ...]:
        """The runtime's own command; empty if the TrainJob or the image has it."""
        command = self.container.get("command")
        return tuple(map(str, command)) if isinstance(command, list) else ()
