"""What a change of a runtime newly lets through, and in which of its containers."""

from datetime import date
from typing import Any

import pytest

from tests.support.rule_examples import changed
from trainyard_policies.lint import granted

TODAY = date(2026, 11, 21)
POD = "spec.template.spec.replicatedJobs[0].template.spec.template.spec"
EXCEPTIONS = {
    f"metadata.annotations[policy.trainyard.dev/{rule}]": "until=2027-01-01; a driver"
    for rule in ("privileges", "host-access")
}
TRUE = "must not be true"
PATH = "must not be a hostPath: use an emptyDir or a claim"


def container(name: str, **fields: Any) -> dict[str, Any]:
    return {"name": name, **fields}


def runtime(*containers: dict[str, Any], **pod: Any) -> dict[str, Any]:
    fields = {f"{POD}.{name}": value for name, value in pod.items()}
    return changed("runtime", {**EXCEPTIONS, f"{POD}.containers": list(containers), **fields})


DRIVER = container("driver", securityContext={"privileged": True})
NODE, OTHER = (container("node", image=f"ghcr.io/kubeflow/train:{tag}") for tag in (1, 2))
SIDE = container("side", securityContext={"privileged": True})
IN_DATA = {"volumes": [{"name": "data", "hostPath": {"path": "/data"}}]}
IN_ROOT = {"volumes": [{"name": "data", "hostPath": {"path": "/"}}]}
LOCKS, ADMIN = (
    container("node", securityContext={"capabilities": {"add": [*(f"C{n}" for n in range(10)), last]}})
    for last in ("IPC_LOCK", "SYS_ADMIN")
)
ADDS = f"must not add capabilities, adds {', '.join(f'C{n}' for n in range(10))} and 1 more"


@pytest.mark.parametrize(
    ("before", "after", "sentences"),
    [
        pytest.param(
            runtime(DRIVER, NODE),
            runtime(DRIVER, NODE, SIDE),
            (
                "privilege securityContext.privileged in replicatedJobs[node].containers[side] "
                f"(privileges: {TRUE})",
            ),
            id="a second container",
        ),
        pytest.param(
            runtime(NODE),
            runtime(NODE, SIDE),
            (f"privilege securityContext.privileged (privileges: {TRUE})",),
            id="the first container, which needs no name",
        ),
        pytest.param(runtime(DRIVER, NODE), runtime(NODE, DRIVER), (), id="another order"),
        pytest.param(runtime(DRIVER, SIDE), runtime(SIDE), (), id="one container less"),
        pytest.param(
            runtime(NODE, **IN_DATA),
            runtime(NODE, **IN_ROOT),
            (f"privilege volumes[0].hostPath (host-access: {PATH})",),
            id="another path of the node",
        ),
        pytest.param(
            runtime(LOCKS),
            runtime(ADMIN),
            (f"privilege capabilities.add (privileges: {ADDS})",),
            id="a capability that the sentence leaves out",
        ),
        pytest.param(
            runtime(NODE, securityContext={"sysctls": [{"name": "kernel.msgmax", "value": "1"}]}),
            runtime(NODE, securityContext={"sysctls": [{"name": "kernel.msgmax", "value": "65536"}]}),
            (
                "privilege securityContext.sysctls[0] (privileges: must be a sysctl of the baseline Pod "
                "Security Standard, is kernel.msgmax)",
            ),
            id="another value of a sysctl",
        ),
        pytest.param(
            runtime(NODE, hostNetwork=True), runtime(OTHER, hostNetwork=True), (), id="another image"
        ),
    ],
)
def test_a_privilege_is_new_where_no_container_had_the_same(
    before: dict[str, Any], after: dict[str, Any], sentences: tuple[str, ...]
):
    assert granted.by(before, after, TODAY) == sentences


def test_privileges_of_two_containers_are_two_sentences():
    place = "securityContext.privileged in replicatedJobs[node].containers"
    assert list(granted.privileges(runtime(DRIVER, SIDE), TODAY)) == [
        f"privilege {place}[{name}] (privileges: {TRUE})" for name in ("driver", "side")
    ]


def test_of_more_privileges_than_are_named_one_may_be_new():
    many = runtime(*(container(f"c{n}", securityContext={"privileged": True}) for n in range(60)))
    more = "privilege elsewhere (privileges: finds more than the 50 reported places)"
    assert granted.by(many, many, TODAY) == (more,)
