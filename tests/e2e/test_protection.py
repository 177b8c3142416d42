"""What protects the platform's own pods in a cluster: its network, its scheduler and its API server."""

import json

import pytest

from tests.support.cluster import Cluster, Object
from tests.support.patience import STARTED, eventually

from .packets import connects, server

pytestmark = pytest.mark.sandbox(area="operator")

HOME = "trainyard-system"


def operator(platform: Cluster) -> Object:
    found = platform.kubectl(
        "get", "pods", "-n", HOME, "-l", "app.kubernetes.io/name=trainyard-operator", "-o", "json"
    )
    [pod] = [one for one in json.loads(found)["items"] if "deletionTimestamp" not in one["metadata"]]
    return pod


def test_the_scheduler_makes_room_for_the_operator(platform: Cluster) -> None:
    spec = operator(platform)["spec"]
    assert (spec["priorityClassName"], spec["priority"]) == ("trainyard-operator", 1_000_000)


def test_the_api_server_serves_the_operator_by_flow_schemas_of_its_own(platform: Cluster) -> None:
    served = {
        line.partition('flow_schema="')[2].partition('"')[0]
        for line in platform.kubectl("get", "--raw", "/metrics").splitlines()
        if line.startswith("apiserver_flowcontrol_dispatched_requests_total{")
    }
    assert {"trainyard-operator", "trainyard-operator-lease"} <= served


def test_the_platforms_own_pods_are_reached_at_the_ports_that_they_serve_and_at_no_others(
    platform: Cluster,
) -> None:
    there, home = platform.within("default"), platform.within(HOME)
    there.apply(server("server", 8000))
    home.apply(server("beside", 8000, 8443))
    try:
        there.wait("pod/server", condition="condition=Ready")
        home.wait("pod/beside", condition="condition=Ready")
        address = (home.get("pod", "beside") or {})["status"]["podIP"]
        replica = operator(platform)["status"]["podIP"]
        asked = ((replica, 8443), (replica, 9443), (address, 8443), (address, 8000))

        def reached() -> bool:
            assert [connects(there, host, port) for host, port in asked] == [True, True, True, False]
            return True

        # Rules are in force a moment after their pods are, and a packet may be late.
        eventually("the served ports are reached, and no others", reached, within=STARTED)
    finally:
        there.kubectl("delete", "pod", "server", "--wait")
        home.kubectl("delete", "pod", "beside", "--wait")
