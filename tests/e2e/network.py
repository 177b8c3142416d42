"""A way from one sandbox's network to another's, which have none by themselves."""

import contextlib
import ctypes
import os
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Thread
from urllib.parse import urlsplit

from tests.support.cluster import Cluster
from trainyard_sandbox.isolation import CLUSTER_ADDRESS

_CLONE_NEWNET = 0x40000000


@contextlib.contextmanager
def way_to(outside: Cluster, inside: Cluster) -> Iterator[str]:
    """The address by which what runs in the sandbox `inside` reaches the API server of `outside`."""
    server = urlsplit(outside.sandbox.status().server)
    pid = inside.sandbox.status().components["kube-apiserver"]["pid"]
    with ThreadPoolExecutor() as pool:
        listener = pool.submit(_listening_in, Path(f"/proc/{pid}/ns/net")).result()
    with listener:
        Thread(target=_serve, args=(listener, (server.hostname, server.port)), daemon=True).start()
        yield f"https://{CLUSTER_ADDRESS}:{listener.getsockname()[1]}"
        listener.shutdown(socket.SHUT_RDWR)


def _listening_in(namespace: Path) -> socket.socket:
    """A socket of that network; the thread that asks stays in it, and is good for nothing else."""
    with namespace.open() as file:
        if ctypes.CDLL(None, use_errno=True).setns(file.fileno(), _CLONE_NEWNET) != 0:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return socket.create_server((CLUSTER_ADDRESS, 0))


def _serve(listener: socket.socket, target: tuple[str | None, int | None]) -> None:
    with contextlib.suppress(OSError):  # it is over
        while True:
            near, _ = listener.accept()
            far = socket.create_connection(target)
            for one, other in ((near, far), (far, near)):
                Thread(target=_copy, args=(one, other), daemon=True).start()


def _copy(source: socket.socket, sink: socket.socket) -> None:
    with contextlib.suppress(OSError):  # either end has gone
        while data := source.recv(1 << 16):
            sink.sendall(data)
        sink.shutdown(socket.SHUT_WR)
