"""The gate in the cluster: admission policies, and what they leave to the operator's webhook.

`objects` builds, for a stack, a ValidatingAdmissionPolicy for each rule that
CEL can express, a binding for each subject with the action of its level, and
the ConfigMap with the parameters. `answer` is what the webhook says about the
other rules, and about exceptions, because CEL knows no date. Both check only
what a request makes worse: what was wrong before still has to be fixed, but
keeps nobody from suspending a job.

Called by the platform and by the operator. Values in, values out.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date
from typing import Any, Final

from trainyard_api import names
from trainyard_api.json_types import Json

from . import cel, engine, exceptions, rules
from .cel import Cel
from .engine import Violation
from .parameters import Parameters
from .rule import MOST, Level, Rule, Subject
from .settings import Policies

GROUP: Final = "admissionregistration.k8s.io"
PARAMETERS: Final = "trainyard-policies"
"""The ConfigMap with the parameters."""
RESOURCES: Final = {
    Subject.RUNTIMES: (names.CLUSTER_TRAINING_RUNTIMES, names.TRAINING_RUNTIMES),
    Subject.TRAINJOBS: (names.TRAINJOBS,),
}
"""The resources of a subject in requests."""

EXEMPTING_LABEL: Final = f"exempting-label.{names.POLICY_DOMAIN}"
"""The admission policy about the label that keeps webhooks away."""

_SUFFIXES: Final = {Subject.RUNTIMES: "", Subject.TRAINJOBS: "-of-trainjobs"}
_ACTIONS: Final = {
    Level.ADVISORY: ["Warn", "Audit"],
    Level.REMEDIATE: ["Deny"],
    Level.MANDATORY: ["Deny"],
}


@dataclass(frozen=True, slots=True)
class Answer:
    """What the webhook says: why it refuses, and what it lets pass with a warning."""

    refusals: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


def objects(policies: Policies, namespace: str) -> list[dict[str, Any]]:
    """The parameters, which live in `namespace`, then each policy with its bindings."""
    parameters = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": PARAMETERS, "namespace": namespace},
        "data": data(policies.parameters),
    }
    of_rules = (manifest for rule in rules.OF_WORKLOADS for manifest in _of(rule, policies, namespace))
    return [parameters, *of_rules, *_exempting_label()]


def data(parameters: Parameters) -> dict[str, str]:
    """The parameters that CEL reads, as a ConfigMap has them: lists in lines, no bound as nothing."""
    lists = {
        "registries": [registry.rstrip("/") for registry in parameters.registries],
        "maxNodes": _number(parameters.max_nodes),
        "maxProcessesPerNode": _number(parameters.max_processes_per_node),
        "longestGrace": _number(parameters.longest_grace),
        "maxResources": [f"{name}={most}" for name, most in sorted(parameters.max_resources.items())],
        "exceptionsIn": parameters.exceptions_in,
        "controllers": parameters.controllers,
    }
    return {key: "\n".join(lines) for key, lines in lists.items() if lines}


def _number(bound: int | None) -> list[str]:
    return [] if bound is None else [str(bound)]


def answer(value: Json, old: Json | None, user: str, today: date, policies: Policies) -> Answer:
    """What the webhook says about a request of `user` that makes `old` (None: nothing) into `value`.

    Raises nothing, whatever the object holds.
    """
    if user in policies.parameters.controllers:
        return Answer()
    violations = tuple(_left(value, today, policies))
    before = set() if old is None or not violations else _before(old, value, today, policies)
    refusals: list[str] = []
    warnings: list[str] = []
    for violation in violations:
        rule = violation.rule.id
        if violation.exemption is not None:
            until, reason = violation.exemption.until, violation.exemption.reason
            warnings.append(f"{rule}: {violation.message}, excepted until {until}: {reason}")
        elif _key(violation) not in before:
            (refusals if violation.refuses else warnings).append(f"{rule}: {violation.with_remedy}")
    return Answer(tuple(refusals[:MOST]), tuple(warnings[:MOST]))


def _before(old: Json, value: Json, today: date, policies: Policies) -> set[tuple[str, str]]:
    """The violations of the old object that no exception covers."""
    keys = {_key(violation) for violation in _left(old, today, policies) if violation.exemption is None}
    if _changes_more_than_suspend(value, old):
        # Of too many findings some are not named, and one of those may be new.
        keys = {(rule, message) for rule, message in keys if not message.startswith(engine.MORE.message)}
    return keys


def _changes_more_than_suspend(value: Json, old: Json) -> bool:
    specs = (one.get("spec") for one in (value, old))
    new, before = ({**spec, "suspend": None} if isinstance(spec, dict) else spec for spec in specs)
    return bool(new != before)


def _left(value: Json, today: date, policies: Policies) -> Iterator[Violation]:
    """What the rules say that no admission policy checks."""
    left = [rule for rule in rules.OF_WORKLOADS if not _held(rule) or _excepted(rule, value, policies)]
    yield from engine.check(value, today, policies, left)


def _held(rule: Rule) -> bool:
    """Whether admission policies enforce a rule."""
    return not isinstance(rule.cluster, cel.Webhook)


def _excepted(rule: Rule, value: Json, policies: Policies) -> bool:
    metadata = value.get("metadata")
    annotations = metadata.get("annotations") if isinstance(metadata, dict) else None
    written = isinstance(annotations, dict) and f"{exceptions.PREFIX}{rule.id}" in annotations
    return written and value.get("kind") in policies.parameters.exceptions_in


def _key(violation: Violation) -> tuple[str, str]:
    return violation.rule.id, violation.message


def _of(rule: Rule, policies: Policies, namespace: str) -> Iterator[dict[str, Any]]:
    if isinstance(rule.cluster, cel.Webhook):
        return
    levels = {subject: policies.level(rule, subject) for subject in _SUFFIXES}
    subjects = [subject for subject, level in levels.items() if level is not Level.DISABLED]
    if not subjects:
        return
    yield _policy(rule, rule.cluster, [name for subject in subjects for name in RESOURCES[subject]])
    for subject in subjects:
        yield {
            "apiVersion": f"{GROUP}/v1",
            "kind": "ValidatingAdmissionPolicyBinding",
            "metadata": {"name": f"{rule.id}{_SUFFIXES[subject]}.{names.POLICY_DOMAIN}"},
            "spec": {
                "policyName": _name(rule),
                "paramRef": {"name": PARAMETERS, "namespace": namespace, "parameterNotFoundAction": "Deny"},
                "validationActions": _ACTIONS[levels[subject]],
                "matchResources": {"resourceRules": [_resources(list(RESOURCES[subject]))]},
            },
        }


def _policy(rule: Rule, parts: tuple[Cel, ...], resources: list[str]) -> dict[str, Any]:
    # The API server would check fields against the schema of one kind; these policies are for three.
    messages = cel.messages(parts, "dyn(object)", "variables.jobs")
    before = cel.messages(parts, "dyn(oldObject)", "variables.jobsBefore")
    annotation = f".?metadata.?annotations[?{cel.quoted(exceptions.PREFIX + rule.id)}].hasValue()"
    let_off = f"object{annotation} && object.kind in params.data.?exceptionsIn.orValue('').split('\\n')"
    return {
        "apiVersion": f"{GROUP}/v1",
        "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": _name(rule), "annotations": {"trainyard.dev/docs": rule.docs}},
        "spec": {
            "failurePolicy": "Fail",
            "paramKind": {"apiVersion": "v1", "kind": "ConfigMap"},
            "matchConstraints": {"resourceRules": [_resources(resources)]},
            "matchConditions": [
                {
                    "name": "not-by-a-controller",
                    "expression": "!(request.userInfo.username in "
                    "params.data.?controllers.orValue('').split('\\n'))",
                },
                # Whether an exception holds depends on the date, which the webhook knows.
                {"name": "not-excepted", "expression": f"!({let_off})"},
            ],
            "variables": [
                {"name": "jobs", "expression": cel.jobs("dyn(object)")},
                {
                    "name": "jobsBefore",
                    "expression": f"oldObject == null ? [] : ({cel.jobs('dyn(oldObject)')})",
                },
                {
                    "name": "before",
                    "expression": f"oldObject == null || oldObject{annotation} ? [] : "
                    f"({before}).split('\\n')",
                },
                {
                    "name": "found",
                    "expression": f"({messages}).split('\\n').filter(f, f != '' && !(f in variables.before))",
                },
            ],
            "validations": [
                {
                    "expression": "size(variables.found) == 0",
                    "message": f"{rule.id}: {rule.title}. {rule.remedy}",
                    "messageExpression": f"{cel.quoted(f'{rule.id}: ')} + variables.found.join('; ') + "
                    f"{cel.quoted(f'. {rule.remedy}')}",
                    "reason": "Forbidden",
                }
            ],
        },
    }


def _exempting_label() -> Iterator[dict[str, Any]]:
    """Only the user who rolls out a stack may exempt a ClusterTrainingRuntime from the webhooks.

    Others could add an exception to the label, and admission policies leave exceptions to the webhook.
    """
    label = f".metadata.?labels[?{cel.quoted(names.WEBHOOK_VALIDATION_LABEL)}].orValue('') == 'disabled'"
    group, resource, verb = names.EXEMPTING_RIGHT
    right = f"authorizer.group('{group}').resource('{resource}').check('{verb}')"
    resources = _resources([names.CLUSTER_TRAINING_RUNTIMES])
    yield {
        "apiVersion": f"{GROUP}/v1",
        "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": EXEMPTING_LABEL},
        "spec": {
            "failurePolicy": "Fail",
            "matchConstraints": {"resourceRules": [resources]},
            "matchConditions": [
                {"name": "labelled", "expression": f"object{label}"},
                {
                    "name": "changed",
                    "expression": f"oldObject == null || !(oldObject{label}) "
                    "|| object.?spec != oldObject.?spec || object.metadata.?annotations.orValue({}) "
                    "!= oldObject.metadata.?annotations.orValue({})",
                },
            ],
            "validations": [
                {
                    "expression": f"{right}.allowed()",
                    "message": f"metadata.labels[{names.WEBHOOK_VALIDATION_LABEL}]: must not be disabled, "
                    f"which is for roll-outs of a stack. Leave it out, or get the verb {verb} on "
                    f"{resource}.{group}",
                    "reason": "Forbidden",
                }
            ],
        },
    }
    yield {
        "apiVersion": f"{GROUP}/v1",
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": EXEMPTING_LABEL},
        "spec": {
            "policyName": EXEMPTING_LABEL,
            "validationActions": _ACTIONS[Level.MANDATORY],
            "matchResources": {"resourceRules": [resources]},
        },
    }


def _name(rule: Rule) -> str:
    return f"{rule.id}.{names.POLICY_DOMAIN}"


def _resources(plurals: list[str]) -> dict[str, Any]:
    return {
        "apiGroups": [names.TRAINER_GROUP],
        "apiVersions": [names.TRAINER_VERSION],
        "operations": ["CREATE", "UPDATE"],
        "resources": plurals,
    }
