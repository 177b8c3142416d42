"""What a Prometheus sees of a platform at work: no alert and no panel asks for what is not there."""

import json
import math
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.cluster import UNTIL_TOLD, Cluster, Object, emptied, trainjob
from tests.support.patience import STARTED, eventually
from trainyard_platform.parts.observability import manifests as monitoring_manifests
from trainyard_platform.stack.observability import Observability

from .prometheus import SYSTEM, Prometheus, operator_metrics, tool, watching

pytestmark = pytest.mark.sandbox(area="platform")

CASES = Path(__file__).with_name("alerts.yaml")
OF_OTHERS = re.compile(r"\b(kube|trainyard_drift)_")
"""Metrics that neither the operator nor Kueue has: of kube-state-metrics, and of `trainyard drift`."""
PARTS = ["admission", "kueue", "jobset", "volcano", "coscheduling"]


@pytest.fixture
def gpus(platform: Cluster) -> Iterator[Cluster]:
    """The namespace of the tenant that has the simulated GPUs."""
    yield from emptied(platform.within("gpus"))


def queued(name: str, script: str = "true", *, priority: str | None = None, **spec: Any) -> Object:
    """A TrainJob of one node, in the queue of its namespace."""
    job = trainjob(name, script, **spec)
    job["metadata"]["labels"] = {"kueue.x-k8s.io/queue-name": "default"}
    if priority:
        job["metadata"]["labels"]["kueue.x-k8s.io/priority-class"] = priority
        job["spec"]["trainer"]["resourcesPerNode"] = {"requests": {"cpu": "500m"}}
    return job


def bigger_than_the_pool() -> Object:
    """A TrainJob that asks for more GPUs than there are."""
    gpu = {"nvidia.com/gpu": "8"}
    job = queued("too-big")
    job["spec"]["trainer"] |= {"numNodes": 9, "resourcesPerNode": {"requests": gpu, "limits": gpu}}
    return job


def runs(cluster: Cluster, job: str) -> None:
    def ask() -> bool:
        return any(pod["status"].get("phase") == "Running" for pod in cluster.pods(job))

    eventually(f"{job} runs", ask)


def panels(cluster: Cluster) -> dict[str, str]:
    """The query of each panel's target, by where it stands."""
    maps = cluster.within(SYSTEM).list("configmaps", "grafana_dashboard=1")
    boards = [json.loads(text) for one in maps for text in one["data"].values()]
    assert {board["uid"] for board in boards} == {"trainyard-operator", "trainyard-jobs", "trainyard-queues"}
    return {
        f"{board['title']} / {panel['title']} / {target['legendFormat']}": target["expr"].replace(
            "$__rate_interval", "5m"
        )
        for board in boards
        for panel in board["panels"]
        for target in panel["targets"]
    }


def always_answered(expression: str) -> str:
    """An alert's query so that it has an answer whenever there is what it compares."""
    inner = re.fullmatch(r"absent\((.*)\)", expression)
    return re.sub(r" (==|>|<)\s+", r" \1 bool ", inner[1] if inner else expression)


@pytest.mark.core
def test_the_operator_has_a_metric_of_each_name_that_an_alert_or_a_panel_asks_for(platform: Cluster) -> None:
    text = operator_metrics(platform)
    kinds = re.findall(r"^# TYPE (trainyard_\w+) (\w+)$", text, re.MULTILINE)
    parts = {"histogram": ("_bucket", "_sum", "_count")}
    there = {name + part for name, kind in kinds for part in parts.get(kind, ("",))}
    declared = platform.within(SYSTEM).list("prometheusrules")
    alerts = [rule["expr"] for one in declared for group in one["spec"]["groups"] for rule in group["rules"]]
    expressions = [one for one in (*alerts, *panels(platform).values()) if not OF_OTHERS.search(one)]
    asked = set(re.findall(r"\btrainyard_\w+", " ".join(expressions)))
    assert asked
    assert asked - there == set()


def test_every_alert_and_every_panel_has_what_it_asks_for(
    platform: Cluster, team_a: Cluster, team_b: Cluster, gpus: Cluster, tmp_path: Path
) -> None:
    with watching(platform, tmp_path) as prometheus:
        gpus.apply(bigger_than_the_pool())
        # Twice: the first of its kind is where a counter begins.
        for name in ("first", "second"):
            team_a.apply(queued(name))
            team_a.wait_for_condition(name, "Complete")
        team_a.apply(queued("too-slow", UNTIL_TOLD, activeDeadlineSeconds=2))
        team_a.wait_for_condition("too-slow", "Failed")
        team_b.apply(queued("fills", UNTIL_TOLD, priority="high"))
        runs(team_b, "fills")
        team_a.apply(queued("low", UNTIL_TOLD, priority="low"))
        runs(team_a, "low")
        team_a.apply(queued("high", UNTIL_TOLD, priority="high"))
        runs(team_a, "high")
        eventually("no panel is empty", lambda: nothing_empty(prometheus, panels(platform)), within=STARTED)
        rules = eventually("every rule is well", lambda: healthy(prometheus))
        queries = {
            rule["name"]: always_answered(rule["query"])
            for rule in rules
            if not OF_OTHERS.search(rule["query"])
        }
        eventually("no alert asks for what is not there", lambda: nothing_empty(prometheus, queries))
        # One of them has seen something: the job that no quota will ever do for.
        pending = {
            (one["name"], one["alerts"][0]["labels"].get("cluster_queue")) for one in rules if one["alerts"]
        }
        assert ("QueueStuck", "gpus") in pending


def healthy(prometheus: Prometheus) -> list[Object]:
    """Prometheus' rules, if it could evaluate each."""
    rules = [rule for group in prometheus.get("rules")["groups"] for rule in group["rules"]]
    assert [(rule["name"], rule["lastError"]) for rule in rules if rule["health"] != "ok"] == []
    return rules


def nothing_empty(prometheus: Prometheus, queries: dict[str, str]) -> bool:
    empty = {
        where: query
        for where, query in queries.items()
        if not any(not math.isnan(value) for value in prometheus.values(query))
    }
    assert empty == {}
    return True


def test_each_alert_fires_when_it_should_and_not_before(tmp_path: Path) -> None:
    rules = monitoring_manifests.rules(SYSTEM, PARTS, Observability())["spec"]
    cases = yaml.safe_load(CASES.read_text())
    alerts = {rule["alert"] for group in rules["groups"] for rule in group["rules"]}
    assert {name.split(maxsplit=1)[0] for name in cases} == alerts
    tests = {"rule_files": ["rules.yml"], "tests": [case(name, one) for name, one in cases.items()]}
    (tmp_path / "rules.yml").write_text(yaml.safe_dump(rules))
    (tmp_path / "tests.yml").write_text(yaml.safe_dump(tests))
    command = [tool("promtool"), "test", "rules", "tests.yml"]
    answer = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert answer.returncode == 0, answer.stdout + answer.stderr


def case(name: str, given: Object) -> Object:
    """A test of promtool's: nothing fires at first, one alert at last."""
    firing = {"alertname": name.split(maxsplit=1)[0], "alertstate": "firing"}
    labels = ", ".join(f'{key}="{value}"' for key, value in {**firing, **given["labels"]}.items())
    selector = ", ".join(f'{key}="{value}"' for key, value in firing.items())
    fired = [{"labels": f"ALERTS{{{labels}}}", "value": 1}]
    return {
        "name": name,
        "interval": "1m",
        "input_series": [{"series": series, "values": values} for series, values in given["series"].items()],
        "promql_expr_test": [
            {"expr": f"ALERTS{{{selector}}}", "eval_time": f"{minute}m", "exp_samples": samples}
            for minute, samples in ((given["quiet"], []), (given["fires"], fired))
        ],
    }
