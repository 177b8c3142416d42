"""docs/security.md says each right of the operator's, and why it has it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from trainyard_platform.parts.operator import rbac
from trainyard_platform.stack.tenants import GUIDED

PAGE = Path(__file__).parents[2] / "docs" / "security.md"
BEGIN, END = "<!-- begin table -->\n", "<!-- end table -->\n"
OWN = "`trainyard-system`"
WHERE = {
    "cluster": rbac.CLUSTER,
    "`admission.enabled`": rbac.ADMISSION,
    "`admission.policies`": rbac.TRIALS,
    "`operator.featureGates.TrainJobStatus`": rbac.REPORTS,
    "`kueue`, where queues hold JobSets": rbac.QUEUES,
    "`operator.metricsAuthentication`": rbac.METRICS,
    "`operator.retention`": rbac.RETENTION,
    "tenants' namespaces, `operator.mpiNamespaces`": rbac.SECRETS,
    "tenants' namespaces, `operator.lastLines.namespaces`": rbac.LAST_LINES,
    OWN: rbac.OWN_NAMESPACE,
    f"{OWN}, unless cert-manager makes the certificate": rbac.CERTIFICATE,
    "`kubeflow-system`": rbac.UPSTREAM,
}


def rights() -> Iterator[tuple[str, str, str]]:
    for where, rules in WHERE.items():
        for rule in rules:
            resources = ", ".join(f"`{resource}`" for resource in rule["resources"])
            groups = ", ".join(group for group in rule["apiGroups"] if group)
            only = "".join(f", only `{name}`" for name in rule.get("resourceNames", ()))
            yield (
                where,
                f"{resources} ({groups}){only}" if groups else f"{resources}{only}",
                ", ".join(rule["verbs"]),
            )


def test_the_page_has_a_row_for_each_right_and_each_row_says_why() -> None:
    table = PAGE.read_text().partition(BEGIN)[2].partition(END)[0].splitlines()[2:]
    rows = [tuple(cell.strip() for cell in row.strip("|").split("|")) for row in table]
    assert [row[:3] for row in rows] == list(rights())
    assert all(row[3] for row in rows)


WRITES = ("create", "update", "patch", "delete", "deletecollection", "escalate", "bind", "impersonate")
NEVER: dict[str, dict[str, tuple[str, ...]]] = {
    "create a pod itself, or open a shell in one": {
        **dict.fromkeys(("pods", "pods/ephemeralcontainers"), WRITES),
        **dict.fromkeys(("pods/exec", "pods/attach", "pods/portforward", "pods/proxy"), (*WRITES, "get")),
    },
    "list or watch Secrets": {"secrets": ("list", "watch")},
    "change roles, bindings, accounts or nodes": dict.fromkeys(
        (
            *("roles", "clusterroles", "rolebindings", "clusterrolebindings"),
            *("serviceaccounts", "serviceaccounts/token", "nodes"),
        ),
        WRITES,
    ),
}


@pytest.mark.parametrize("sentence", NEVER)
def test_the_operator_has_no_right_that_the_security_policy_says_it_has_not(sentence: str) -> None:
    assert sentence in (PAGE.parents[1] / "SECURITY.md").read_text()
    rules = [rule for given in WHERE.values() for rule in given]
    held = {(resource, verb) for rule in rules for resource in rule["resources"] for verb in rule["verbs"]}
    assert not {"*"} & {word for pair in held for word in pair}
    assert held & {(resource, verb) for resource, verbs in NEVER[sentence].items() for verb in verbs} == set()


def test_the_security_policy_says_what_data_scientists_may_do_unless_a_stack_gives_fewer_rights() -> None:
    """One phrase for each right that a stack gives by itself."""
    rights = "delete its pods, open a shell in them and connect to their ports"
    assert (
        f"read and write its ConfigMaps, Secrets and PersistentVolumeClaims, {rights}"
        in (PAGE.parents[1] / "SECURITY.md").read_text()
    )
    assert set(GUIDED) == {
        "configmaps",
        "secrets",
        "persistentvolumeclaims",
        "pods",
        "pods/exec",
        "pods/portforward",
    }
