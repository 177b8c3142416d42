"""The rules, one a file, in the order in which they are shown.

A new rule is one module in this package, one line in `ALL` and one table of
examples in the tests.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from ..rule import About, Rule, StackRule
from . import (
    accelerator_fit,
    accelerators_equal,
    chart_hooks,
    claim_access,
    crds_retained,
    deprecated_runtime,
    exception_form,
    framework_label,
    host_access,
    image_digest,
    image_registry,
    image_tag,
    initializers,
    ml_policy,
    name_form,
    node_bounds,
    pool_match,
    privileges,
    queue_references,
    resource_bounds,
    resources_declared,
    restart_policy,
    run_as_non_root,
    secrets_by_reference,
    service_account_token,
    tenant_network,
    trainer_step,
    unique_names,
    version_pairs,
    well_formed,
)

OF_WORKLOADS: Final[tuple[Rule, ...]] = (
    well_formed.RULE,
    name_form.RULE,
    framework_label.RULE,
    trainer_step.RULE,
    initializers.RULE,
    claim_access.RULE,
    ml_policy.RULE,
    restart_policy.RULE,
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
    privileges.RULE,
    run_as_non_root.RULE,
    service_account_token.RULE,
    secrets_by_reference.RULE,
    exception_form.RULE,
)
"""What each runtime and TrainJob is held to."""

OF_THE_STACK: Final[tuple[StackRule, ...]] = (
    unique_names.RULE,
    queue_references.RULE,
    tenant_network.RULE,
    crds_retained.RULE,
    chart_hooks.RULE,
    version_pairs.RULE,
    deprecated_runtime.RULE,
)
"""What all manifests together are held to."""

ALL: Final[tuple[About, ...]] = (*OF_WORKLOADS, *OF_THE_STACK)

BY_ID: Final[Mapping[str, About]] = {rule.id: rule for rule in ALL}
