"""The rules, one per file, in the order in which they are shown.

A new rule is one module in this package, one line below and one table of
examples in the tests. A site's own are in the folder `site`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from .. import site_rules
from ..rule import About, Rule, StackRule
from . import (
    accelerator_fit,
    accelerators_equal,
    chart_hooks,
    claim_access,
    crds_retained,
    deprecated_runtime,
    dns_names,
    exception_due,
    exception_form,
    exception_unused,
    framework_known,
    framework_label,
    host_access,
    image_digest,
    image_registry,
    image_tag,
    initializers,
    jobset_consistency,
    ml_policy,
    name_form,
    node_bounds,
    pod_affinity,
    pod_consistency,
    pod_end,
    pool_match,
    privileges,
    queue_references,
    reserved_env,
    resource_bounds,
    resources_declared,
    restart_policy,
    run_as_non_root,
    secrets_by_reference,
    sent_suspended,
    service_account_token,
    tenant_network,
    trainer_step,
    unique_names,
    version_pairs,
    volume_sources,
    well_formed,
)

_CHECKS: Final[tuple[Rule, ...]] = (
    well_formed.RULE,
    name_form.RULE,
    framework_label.RULE,
    framework_known.RULE,
    trainer_step.RULE,
    initializers.RULE,
    claim_access.RULE,
    pod_consistency.RULE,
    jobset_consistency.RULE,
    ml_policy.RULE,
    dns_names.RULE,
    restart_policy.RULE,
    pod_end.RULE,
    node_bounds.RULE,
    image_registry.RULE,
    image_tag.RULE,
    image_digest.RULE,
    resources_declared.RULE,
    resource_bounds.RULE,
    accelerators_equal.RULE,
    accelerator_fit.RULE,
    pool_match.RULE,
    host_access.RULE,
    volume_sources.RULE,
    privileges.RULE,
    pod_affinity.RULE,
    run_as_non_root.RULE,
    service_account_token.RULE,
    secrets_by_reference.RULE,
    reserved_env.RULE,
)
_EXCEPTIONS: Final[tuple[Rule, ...]] = (exception_form.RULE, exception_due.RULE, exception_unused.RULE)
_OF_THE_STACK: Final[tuple[StackRule, ...]] = (
    unique_names.RULE,
    queue_references.RULE,
    tenant_network.RULE,
    crds_retained.RULE,
    chart_hooks.RULE,
    version_pairs.RULE,
    deprecated_runtime.RULE,
    sent_suspended.RULE,
)

SHIPPED: Final[tuple[About, ...]] = (*_CHECKS, *_EXCEPTIONS, *_OF_THE_STACK)
"""Trainyard's own."""
_SITE: Final = site_rules.load([rule.id for rule in SHIPPED])

OF_WORKLOADS: Final[tuple[Rule, ...]] = (
    *_CHECKS,
    *(rule for rule in _SITE if isinstance(rule, Rule)),
    *_EXCEPTIONS,
)
"""The rules for each runtime and TrainJob; those about exceptions come last."""

OF_THE_STACK: Final[tuple[StackRule, ...]] = (
    *_OF_THE_STACK,
    *(rule for rule in _SITE if isinstance(rule, StackRule)),
)
"""The rules for all manifests together."""

AFTER_ALL: Final = (well_formed.RULE, exception_unused.RULE)
"""Those that need the others to run: whichever rule meets an unreadable field finds it."""

ALL: Final[tuple[About, ...]] = (*OF_WORKLOADS, *OF_THE_STACK)

BY_ID: Final[Mapping[str, About]] = {rule.id: rule for rule in ALL}
