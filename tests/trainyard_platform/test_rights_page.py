"""docs/security.md says each right of the operator's, and why it has it."""

from collections.abc import Iterator
from pathlib import Path

from trainyard_platform.parts.operator import rbac

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
