"""Is each right of the operator's used? `python -m tests.harness.rights FOLDER`, after all cluster tests.

While the tests run, `note` writes into FOLDER what each control plane's audit
log says that the operator did. Exit codes: 0 each right was used; 1 one was
not, or the operator asked for something that none of its rights allows. A right
can be missing for a while, or in a namespace: what was forbidden then is named.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from trainyard_platform.parts.operator import rbac

FOLDER = "TRAINYARD_TEST_RIGHTS"
"""The variable that names the folder; without it nothing is noted."""
HOME = "trainyard-system"
USER = f"system:serviceaccount:{HOME}:trainyard-operator"
CLUSTER = [
    *(rbac.CLUSTER + rbac.ADMISSION + rbac.TRIALS + rbac.REPORTS + rbac.QUEUES),
    *(rbac.METRICS + rbac.RETENTION + rbac.SECRETS + rbac.LAST_LINES + rbac.UPSTREAM),
]
"""With everything on that can be, in whatever namespace it is bound."""
OWN = rbac.OWN_NAMESPACE + rbac.CERTIFICATE

UNSEEN = {
    ("", "trainer.kubeflow.org/trainjobs/finalizers", "update"): (
        "no request: admission asks for it where OwnerReferencesPermissionEnforcement is on"
    ),
    ("", "/pods", "list"): "where the API server does not list in streams: tests/faults/test_rights.py",
    (HOME, "apps/controllerrevisions", "delete"): "a day after the last use",
}
"""Rights that no end-to-end test uses, and why not."""


class Used(NamedTuple):
    """Something that the operator asked for."""

    namespace: str
    resource: str
    """As `group/resource/subresource`."""
    verb: str
    allowed: bool
    """By its roles; quota, admission or a namespace that ends may have refused it all the same."""


def note(name: str, audit_log: Path) -> None:
    """Keep what the operator did in the sandbox of this name, if somebody wants to know."""
    if not (folder := os.environ.get(FOLDER)) or not audit_log.exists():
        return
    with audit_log.open() as lines:
        found = sorted(set(used(lines)))
    kept = Path(folder)
    kept.mkdir(parents=True, exist_ok=True)
    (kept / f"{name}-{os.getpid()}-{len(list(kept.iterdir()))}.json").write_text(json.dumps(found))


def used(lines: Iterable[str]) -> Iterator[Used]:
    """What an audit log says that the operator asked for."""
    for line in lines:
        if USER not in line or not line.endswith("\n"):  # the last one may still be written
            continue
        event = json.loads(line)
        target = event.get("objectRef")
        if event["user"].get("username") != USER or not target or "resource" not in target:
            continue
        below = f"/{target['subresource']}" if "subresource" in target else ""
        resource = f"{target.get('apiGroup', '')}/{target['resource']}{below}"
        allowed = (event.get("annotations") or {}).get("authorization.k8s.io/decision") != "forbid"
        yield Used(target.get("namespace", ""), resource, event["verb"], allowed)


def granted(rules: rbac.Rules) -> set[tuple[str, str]]:
    """`group/resource` and verb of each right."""
    return {
        (f"{group}/{resource}", verb)
        for rule in rules
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


def unused(found: Iterable[Used]) -> list[tuple[str, str, str]]:
    """The rights that nothing used: namespace (empty: any), `group/resource` and verb."""
    done = {(one.namespace, one.resource, one.verb) for one in found if one.allowed}
    anywhere = {(resource, verb) for _, resource, verb in done}
    home = {(resource, verb) for namespace, resource, verb in done if namespace == HOME}
    missing = [("", *right) for right in granted(CLUSTER) - anywhere]
    missing += [(HOME, *right) for right in granted(OWN) - home]
    return sorted(right for right in missing if right not in UNSEEN)


def lacking(found: Iterable[Used]) -> list[Used]:
    """What was forbidden, and would have been with every right."""
    everywhere, home = granted(CLUSTER), granted(OWN)
    return [
        one
        for one in sorted(set(found))
        if not one.allowed and one[1:3] not in (everywhere | home if one.namespace == HOME else everywhere)
    ]


def main(arguments: Sequence[str]) -> int:
    """Say which rights were not used, and what was forbidden."""
    files = sorted(Path(arguments[0]).glob("*.json"))
    found = [Used(*one) for file in files for one in json.loads(file.read_text())]
    missing = unused(found)
    print(f"Audit logs: {len(files)}. Kinds of requests of the operator: {len(set(found))}.")
    for namespace, resource, verb in missing:
        print(f"Never used: {verb} {resource} {f'in {namespace}' if namespace else 'anywhere'}.")
    never = lacking(found)
    for one in sorted({one for one in found if not one.allowed}):
        why = "no right allows it" if one in never else "where or while it had no right"
        place = f"in {one.namespace}" if one.namespace else "everywhere"
        print(f"Forbidden: {one.verb} {one.resource} {place}: {why}.")
    return 1 if missing or never or not files else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
