"""Pods that serve, and whether packets go from one to an address."""

from tests.support.cluster import Cluster, Object

SERVE = """
import sys, threading
from http.server import HTTPServer, SimpleHTTPRequestHandler
for port in sys.argv[1:]:
    threading.Thread(target=HTTPServer(("", int(port)), SimpleHTTPRequestHandler).serve_forever).start()
"""
ASK = "import sys, socket; socket.create_connection((sys.argv[1], int(sys.argv[2])), timeout=3).close()"


def server(name: str, *ports: int) -> Object:
    """A pod that serves these ports, and may be put anywhere."""
    container = {
        "name": "python",
        "image": "docker.io/trainyard/torch-cpu:sandbox",
        "imagePullPolicy": "IfNotPresent",
        "command": ["python3", "-c", SERVE, *(str(port) for port in ports)],
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "runAsNonRoot": True,
            "runAsUser": 65532,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {"app": name}},
        "spec": {"terminationGracePeriodSeconds": 0, "containers": [container]},
    }


def connects(asker: Cluster, host: str, port: int = 8000) -> bool:
    """Whether packets go from the pod `server` of that namespace to this address and back."""
    command = ("exec", "server", "--", "python3", "-c", ASK, host, str(port))
    return asker.run("kubectl", "-n", str(asker.namespace), *command, check=False).returncode == 0
