"""Addresses of a TrainJob's pods when all of them run on one machine.

Called by `plan`. Each pod has a port, since all of them have one address.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from trainyard_api import names

from .pods import Pod
from .variables import ADDRESS

_FIRST_PORT: Final = frozenset({"PET_MASTER_PORT", "DMLC_TRACKER_PORT"})
"""Variables with the port of the first pod of the trainer, whose address another variable has."""
_OWN_PORT: Final = frozenset({"LIGHTGBM_LOCAL_LISTEN_PORT"})


class Addresses:
    """The addresses of the cluster, and what stands for them on the machine.

    Args:
        pods: All pods of the TrainJob.
        ports: A free port for each.
        hosts: Path of the file with the hosts for `mpirun`.
    """

    def __init__(self, pods: Sequence[Pod], ports: Sequence[int], hosts: str) -> None:
        self._ports = {pod.host: port for pod, port in zip(pods, ports, strict=True)}
        trainers = [pod for pod in pods if pod.step == names.ANCESTOR_TRAINER]
        self._first = self._ports[(trainers or pods)[0].host]
        self._files = {path: hosts for pod in pods for path in _hosts_files(pod)}
        self._pattern = re.compile(
            rf"(?<![\w.-])({'|'.join(map(re.escape, self._ports))})"
            rf"(?:\.{re.escape(pods[0].namespace)}\.svc(?:\.cluster\.local)?)?"
            rf"(:{names.TRAINER_PORT}(?!\d))?(?![\w-])"
        )

    def local(self, text: str) -> str:
        """The text with the addresses of the machine."""
        for path, file in self._files.items():
            text = text.replace(path, file)
        return self._pattern.sub(self._address, text)

    def port(self, pod: Pod, name: str, value: str) -> str:
        """The value of a variable of the pod, with the port of the machine if it has the cluster's."""
        if value != str(names.TRAINER_PORT):
            return value
        if name in _OWN_PORT:
            return str(self._ports[pod.host])
        return str(self._first) if name in _FIRST_PORT else value

    def _address(self, match: re.Match[str]) -> str:
        return f"{ADDRESS}:{self._ports[match[1]]}" if match[2] else ADDRESS


def _hosts_files(pod: Pod) -> list[str]:
    """The paths of the list of hosts that `mpirun` reads in the pod."""
    mounts = pod.container.get("volumeMounts") or ()
    return [
        f"{mount['mountPath']}/hostfile" for mount in mounts if mount.get("name") == names.MPI_HOSTS_VOLUME
    ]
