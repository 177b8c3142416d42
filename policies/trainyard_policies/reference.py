"""The reference of the rules, made from the rules.

`make generate` writes the page that is checked in; a test fails when the two differ.
"""

from __future__ import annotations

from collections.abc import Iterator

from trainyard_api import descriptions
from trainyard_api.markdown import prose

from . import rules
from .parameters import Parameters, spelled
from .rule import About, StackRule
from .subject import Subject

_HEAD = """\
# Policy rules

<!-- Made from the rules by `make generate`; do not edit. -->

The rules that Trainyard enforces on training runtimes and TrainJobs. They run as `trainyard lint` on files, \
as the policy pack in `pulumi preview --policy-pack policies`, and in the cluster when somebody writes a \
runtime or a TrainJob, at the levels below unless a stack file says otherwise:

```yaml
config:
  trainyard:platform:
    policies:
      levels:             # disabled, advisory, remediate or mandatory
        runtimes:
          image-digest: mandatory
        trainJobs:
          secrets-by-reference: mandatory
      parameters:
        registries: [ghcr.io/example]
        maxNodes: 64
```

An annotation with a last day and a reason exempts a ClusterTrainingRuntime of the catalog from a rule; \
every report shows it. The last day is within a year, or what `parameters.longestException` says; reports \
warn from 60 days before it, and about an exception without effect. TrainJobs and \
TrainingRuntimes may make no exceptions unless \
`parameters.exceptionsIn` names their kind, because their users write them.

```yaml
metadata:
  annotations:
    policy.trainyard.dev/host-access: "until=2027-06-30; EFA needs the host's network"
```

In the cluster the operator's webhook checks each TrainJob and each runtime that somebody creates or \
changes, with the same functions. Without its answer nothing is stored ([what guards each way in]\
(../adr/0042-a-rule-is-written-once.md)). Advice is a warning that `kubectl` and the audit log \
show. Only what a request makes wrong is checked, not what was wrong before, and controllers named in \
`parameters.controllers` are exempt. The label `trainer.kubeflow.org/webhook-validation: disabled`, which \
keeps the webhook from the runtimes of a stack, needs the verb `exempt` on `runtimes.trainyard.dev`. What \
Kubernetes, JobSet or Kueue would refuse is refused there too: before a TrainJob or a runtime is let in, the \
API server judges its JobSet and its Jobs in a dry run \
([why](../adr/0025-jobs-are-tried-before-they-are-let-in.md)). `admission.policies: false` in a stack file \
leaves the cluster without the rules.
"""


def page() -> str:
    """The whole page."""
    return "\n".join((_HEAD, *_table(), "", *(line for rule in rules.SHIPPED for line in _section(rule))))


def _table() -> Iterator[str]:
    yield "| rule | runtimes | TrainJobs | all together | `--fix` |"
    yield "|---|---|---|---|---|"
    for rule in rules.SHIPPED:
        levels = " | ".join(rule.levels.get(subject, "") for subject in Subject)
        fixes = "yes" if rule.fixes else ""
        yield f"| [{rule.id}](#{rule.id}) | {levels} | {fixes} |"


def _section(rule: About) -> Iterator[str]:
    yield f"## {rule.id}"
    yield ""
    yield f"{prose(rule.title)}. Severity: {rule.severity}."
    yield ""
    yield prose(rule.why)
    yield ""
    yield f"**Way out.** {prose(rule.remedy)}"
    yield ""
    for name in rule.parameters:
        yield f"**Parameter `{spelled(name)}`.** {prose(descriptions.of(Parameters)[name])}"
        yield ""
    if isinstance(rule, StackRule):
        yield "Checks all manifests together: the whole stack in the pack, the given files in `lint`."
        yield ""
