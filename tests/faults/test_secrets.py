"""What is secret is in no log of the operator's, no Event, no metric and no object but its Secret."""

import base64
import json
from functools import partial
from typing import Any

import pytest

from tests.support.live import TRAINER, done
from tests.support.patience import eventually

from . import gaps, lives, rights
from .hostile import told
from .proxy import Act, Fault

pytestmark = pytest.mark.sandbox
CANARY = "canary-5b1f0d6c2e"
"""Stands for what a user has put where it does not belong."""


def _spill(scene, proxy):
    """TrainJobs that go wrong in several ways, each with something secret in it, once each is answered."""
    case = scene.case()
    refused = proxy.add(Fault(Act.REFUSE, resource="jobsets", about=case.namespace, nth=1))
    env = [{"name": "TOKEN", "value": CANARY}]
    case.create(lives.GANG, trainer={"env": env})
    case.until("its JobSet", lambda: case.jobset)
    assert refused.happened == 1
    specs: dict[str, dict[str, Any]] = {
        "no-nodes": {"trainer": {"env": env, "numNodes": 0}},
        "no-runtime": {"trainer": {"env": env}, "runtimeRef": {"name": "none", "kind": "TrainingRuntime"}},
        "too-large": {"trainer": {"env": env, "numNodes": 2**31 - 1}},
    }
    for name, spec in specs.items():
        metadata = {"name": name, "namespace": case.namespace}
        reference = {"name": "runtime", "kind": "TrainingRuntime"}
        manifest = {"apiVersion": TRAINER, "kind": "TrainJob", "metadata": metadata}
        done(scene.api.create({**manifest, "spec": {"runtimeRef": reference, **spec}}))
    for name in specs:
        eventually(f"{name} is answered", partial(told, scene.api, case.namespace, name))
    return case


def test_nothing_secret_is_said_anywhere(unhurt, tried):
    scene = unhurt
    webhook = {"host": "127.0.0.1", "port": 0}
    with scene.another("five", webhook=webhook) as (proxy, replica):
        scene.replica.kill_for_good()
        try:
            case = _spill(scene, proxy)
            other = scene.case()
            gaps.running(other)
        finally:
            scene.replica.start()
        path = f"/api/v1/namespaces/{case.namespace}"
        keys = done(scene.api.call("GET", f"{path}/secrets"))["items"]
        keys += done(scene.api.call("GET", f"/api/v1/namespaces/{rights.NAMESPACE}/secrets"))["items"]
        secret = {
            line
            for key in keys
            for name, value in key["data"].items()
            if "private" in name or name.endswith(".key")
            for line in base64.b64decode(value).decode().splitlines()
            if "-----" not in line and len(line) > 20
        }
        assert secret, "there are keys"
        secret |= {scene.token, CANARY}
        said = {
            "log": scene.replica.log.read_text() + replica.log.read_text(),
            "metrics": replica.ask("metrics") + scene.replica.ask("metrics"),
            "events": json.dumps(done(scene.api.call("GET", f"{path}/events"))),
            "config maps": json.dumps(done(scene.api.call("GET", f"{path}/configmaps"))),
            "status": json.dumps(
                [item.get("status") for item in scene.api.list(TRAINER, "TrainJob", case.namespace)]
            ),
        }
    found = {place for place, text in said.items() for word in secret if word in text}
    assert found == set()
    tried("canary secrets looked for in " + ", ".join(said), len(secret), len(secret))
