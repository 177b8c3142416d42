"""One replica of the operator as a process, started again whenever it ends, as a kubelet would."""

import os
import signal
import subprocess
import sys
import threading
import time
from urllib.error import HTTPError
from urllib.request import urlopen

import yaml

from tests.support.patience import eventually
from trainyard_api.configuration import API_VERSION, KIND
from trainyard_sandbox.assembly import free_port

AGAIN = 0.2
"""Seconds until one that has ended is started again."""


class Replica:
    """A replica that `configuration` says more about; `ended` has the exit codes of those that went before.

    Its code is this repository's unless folders of `modules` have another. The
    same identity at each start: what has been killed takes its own Lease up
    again without waiting for its end.
    """

    def __init__(self, kubeconfig, folder, name="one", modules=(), **configuration):
        self.name = name
        self.ended = []
        self.log = folder / f"{name}.log"
        self.port = free_port()
        path = (*map(str, modules), os.environ.get("PYTHONPATH"))
        self._environment = {"PYTHONFAULTHANDLER": "1", "PYTHONPATH": os.pathsep.join(filter(None, path))}
        self._configuration = folder / f"{name}.yaml"
        local = {"host": "127.0.0.1", "port": 0}
        document = {
            "apiVersion": API_VERSION,
            "kind": KIND,
            "clientConnection": {"kubeconfig": str(kubeconfig)},
            "leaderElection": {
                "identity": name,
                "leaseDuration": "12s",
                "renewDeadline": "10s",
                "retryPeriod": "2s",
            },
            "logging": {"format": "text"},
            "metrics": {"host": "127.0.0.1", "port": self.port},
            "statusServer": local,
            "webhook": {"enabled": False},
            **configuration,
        }
        self._configuration.write_text(yaml.safe_dump(document))
        self._stopping = False
        self._process = None
        self._thread = None

    def start(self):
        """Start it, whether or not it was ever killed for good."""
        if self._thread is not None:
            self._thread.join()  # or there would be two that start it again and again
        self._stopping = False
        self._thread = threading.Thread(target=self._keep, name=self.name, daemon=True)
        self._thread.start()
        self.ready()

    def ready(self):
        """Wait until it is."""
        eventually(f"replica {self.name} is ready; see {self.log}", lambda: self.probe() == "ok\n")

    def probe(self):
        """What it says of its readiness; empty if it says nothing."""
        return self.ask("readyz")

    def ask(self, path):
        """What it answers to a GET of its own; empty if it does not answer."""
        try:
            return urlopen(f"http://127.0.0.1:{self.port}/{path}", timeout=5).read().decode()
        except HTTPError as error:
            return error.read().decode()
        except OSError:
            return ""

    def send(self, number):
        """Send it a signal."""
        self._process.send_signal(number)

    def kill(self):
        """SIGKILL; returns when it is dead, if it was not already."""
        process = self._process
        process.kill()
        process.wait()

    @property
    def pid(self):
        """Its process."""
        return self._process.pid

    @property
    def leads(self):
        """Whether it says so."""
        return "trainyard_leader 1.0" in self.ask("metrics")

    def kill_for_good(self):
        """SIGKILL, and no other start."""
        self._stopping = True
        self.kill()

    def stop(self):
        """SIGTERM, and no other start."""
        self._stopping = True
        if not self._thread.is_alive():
            return
        self.send(signal.SIGCONT)
        self.send(signal.SIGTERM)
        self._thread.join(20)
        if self._thread.is_alive():
            self.send(signal.SIGKILL)
            self._thread.join(20)

    def _keep(self):
        with self.log.open("ab") as file:
            while not self._stopping:
                self._process = subprocess.Popen(
                    [sys.executable, "-m", "trainyard_operator", "--config", self._configuration],
                    env={**os.environ, **self._environment},
                    stdin=subprocess.DEVNULL,
                    stdout=file,
                    stderr=file,
                )
                self.ended.append(self._process.wait())
                time.sleep(AGAIN)
