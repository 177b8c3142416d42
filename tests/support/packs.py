"""What Pulumi asks a policy, and what it is told."""

from collections.abc import Sequence
from typing import Any, cast

import pulumi_policy as crossguard
from pulumi_policy.proxy import unknown_checking_proxy

from trainyard_api import names
from trainyard_policies import engine, pack
from trainyard_policies.settings import DEFAULT, Policies

from .rule_examples import Example, of_workloads


def named(name: str, policies: Policies = DEFAULT) -> Any:
    return {policy.name: policy for policy in pack.all_policies(policies)}[name]


def arguments(value: dict[str, Any], config: dict[str, Any] | None = None) -> Any:
    return crossguard.ResourceValidationArgs(
        f"kubernetes:{value['apiVersion']}:{value['kind']}",
        unknown_checking_proxy(value),
        f"urn:pulumi:stack::trainyard::{value['kind']}::name",
        "name",
        cast("Any", None),
        None,
        config,
    )


def reported(policy: Any, arguments: Any) -> list[tuple[str, str | None]]:
    found: list[tuple[str, str | None]] = []
    policy.validate(arguments, lambda message, urn=None: found.append((message, urn)))
    return found


def policy_name(example: Example) -> str:
    of_trainjob = example.manifest["kind"] == names.TRAINJOB
    return str(example.rule.id) + ("-of-trainjobs" if of_trainjob else "")


def applicable() -> Sequence[Example]:
    return [e for e in of_workloads() if engine.subject(e.manifest) in e.rule.levels]
