"""The gate in `pulumi preview` and `up`: the rules as a CrossGuard pack.

Each rule is a policy named by its id for runtimes, `<id>-of-trainjobs` for
TrainJobs, and a StackValidationPolicy if it is about all manifests. Levels and
parameters come from the stack file (`trainyard:platform`, key `policies`); a
policy's own config (`--policy-pack-config`) takes precedence. The policy
`exceptions`, which only advises, shows exceptions that hold.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import date
from functools import cache
from typing import Any, Final

# It ships no types.
import grpc  # type: ignore[import-untyped]
import pulumi_policy as crossguard
from pulumi.runtime.proto import analyzer_pb2, analyzer_pb2_grpc
from pulumi_policy import policy
from pulumi_policy.proxy import UnknownValueError
from pydantic import BaseModel, Field, ValidationError

from trainyard_api import strict
from trainyard_api.pools import NodePool

from . import engine, rules
from .engine import Violation
from .manifest import is_workload
from .parameters import Parameters, spelled
from .queues import Queues
from .rule import About, Level, Rule, StackRule, edited
from .settings import DEFAULT, Levels, Policies
from .subject import Subject

NAME: Final = "trainyard"
CONFIG: Final = "trainyard:platform"
_VERSION: Final = "0.0.1"
"""What the engine would show if PulumiPolicy.yaml said no version."""

_OPTIONS: Final = (("grpc.max_receive_message_length", 400 << 20),)
"""A message holds all resources of a stack; the engine sends up to 400 MiB."""

_SUFFIXES: Final = {Subject.RUNTIMES: "", Subject.TRAINJOBS: "-of-trainjobs"}
_TYPE: Final = "kubernetes:"
_OF_CRDS: Final = ":CustomResourceDefinition"


class Servicer(policy._PolicyAnalyzerServicer):  # noqa: SLF001 (docs/adr/0026)
    """The SDK's server, which also listens to the stack's configuration.

    The engine sends that once the pack has started; the SDK (1.21) keeps only
    the stack's tags, and `pulumi.Config` is empty in a pack.
    """

    def __init__(self) -> None:
        # The SDK keeps this list and no copy, so that a change in it changes what is served.
        self._served = all_policies(DEFAULT)
        super().__init__(NAME, _VERSION, self._served, crossguard.EnforcementLevel.MANDATORY)

    def ConfigureStack(self, request: Any, context: Any) -> Any:  # noqa: N802 (the name of the RPC)
        """Take levels and parameters from the stack; a mistake there ends the preview with one message."""
        try:
            self._served[:] = all_policies(of_stack(request.config.get(CONFIG)))
        except ValueError as error:
            context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(error))
        return super().ConfigureStack(request, context)

    def Analyze(self, request: Any, context: Any) -> Any:  # noqa: N802 (the name of the RPC)
        """Ask the rules about runtimes and TrainJobs; the SDK would unpack each CRD once for each of them."""
        if not _is_workload(request):
            return analyzer_pb2.AnalyzeResponse()
        return super().Analyze(request, context)  # type: ignore[no-untyped-call]

    def Remediate(self, request: Any, context: Any) -> Any:  # noqa: N802 (the name of the RPC)
        """As `Analyze`."""
        if not _is_workload(request):
            return analyzer_pb2.RemediateResponse()
        return super().Remediate(request, context)  # type: ignore[no-untyped-call]

    def AnalyzeStack(self, request: Any, context: Any) -> Any:  # noqa: N802 (the name of the RPC)
        """Ask the rules of the stack, without the schemas: the SDK unpacks all objects once for each rule."""
        for resource in request.resources:
            if resource.type.endswith(_OF_CRDS):
                _drop_schemas(resource.properties)
        return super().AnalyzeStack(request, context)  # type: ignore[no-untyped-call]


def serve() -> None:
    """Serve the pack to the engine, which reads the port from standard output, until it ends the process."""
    server = grpc.server(ThreadPoolExecutor(max_workers=4), options=_OPTIONS)
    analyzer_pb2_grpc.add_AnalyzerServicer_to_server(Servicer(), server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    print(port, flush=True)
    with suppress(KeyboardInterrupt):
        server.wait_for_termination()
    server.stop(0)


def of_stack(text: str | None) -> Policies:
    """The policies in the stack's configuration (JSON); raises `ValueError` with each mistake."""
    try:
        section = _Section.model_validate(json.loads(text or "{}"), by_alias=True, by_name=False)
    except ValidationError as error:
        raise ValueError("\n".join(_sentences(CONFIG, error, _Section))) from None
    except json.JSONDecodeError:
        raise ValueError(f"{CONFIG}: must be a mapping") from None
    policies = section.policies.with_images(section.artifacts.images)
    return policies.with_pools(section.node_pools, section.queues)


class _Artifacts(BaseModel):
    """The part of the section `artifacts` that the rules use."""

    images: tuple[str, ...] = ()


class _Section(BaseModel):
    """The part of a stack file that the rules use; the platform checks the rest."""

    artifacts: _Artifacts = _Artifacts()
    policies: Policies = Policies()
    node_pools: dict[str, NodePool] = Field(default={}, alias="nodePools")
    queues: Queues = Queues()


def all_policies(policies: Policies) -> list[crossguard.Policy]:
    """The policies of every rule, and the one that shows exceptions."""
    crossguard_policies: list[crossguard.Policy] = [
        _of_workloads(rule, subject, policies)
        for rule in rules.OF_WORKLOADS
        for subject in _SUFFIXES
        if subject in rule.levels
    ]
    crossguard_policies += [_of_the_stack(rule, policies) for rule in rules.OF_THE_STACK]
    return [*crossguard_policies, _exceptions(policies)]


def _of_workloads(rule: Rule, subject: Subject, policies: Policies) -> crossguard.Policy:
    def violations(args: crossguard.ResourceValidationArgs) -> Iterator[Violation]:
        value = _manifest(args, subject)
        if value is not None:
            enforced = _enforced(policies, subject, rule, args.get_config())
            only = rules.OF_WORKLOADS if rule in rules.AFTER_ALL else (rule,)
            all_violations = _checked(value, enforced, only, of=rule)
            yield from (v for v in all_violations if v.rule is rule and v.exemption is None)

    def validate(args: crossguard.ResourceValidationArgs, report: crossguard.ReportViolation) -> None:
        try:
            for violation in violations(args):
                report(violation.with_remedy, None)
        except ValidationError as error:
            report("; ".join(_sentences(f"{rule.id}: its config", error, Parameters)), None)
        except engine.RuleError as error:
            report(str(error), None)

    def remediate(args: crossguard.ResourceValidationArgs) -> Any:  # the SDK's type forgets plain mappings
        with suppress(engine.RuleError):  # `validate` reports it
            edits = [edit for violation in violations(args) for edit in violation.finding.edits]
            return edited(_plain(args.props), edits) if edits else None
        return None

    return crossguard.ResourceValidationPolicy(
        name=rule.id + _SUFFIXES[subject],
        validate=validate,
        remediate=remediate if rule.fixes else None,
        **_about(rule, policies.level(rule, subject)),
    )


def _of_the_stack(rule: StackRule, policies: Policies) -> crossguard.Policy:
    def validate(args: crossguard.StackValidationArgs, report: crossguard.ReportViolation) -> None:
        resources = [resource for resource in args.resources if _is_object(resource.resource_type)]
        values = [_without_unknowns(resource.props) for resource in resources]
        enforced = _enforced(policies, Subject.STACK, rule, {})
        try:
            for position, violation in engine.check_all(values, date.today(), enforced, [rule]):
                if violation.exemption is None:
                    report(violation.with_remedy, resources[position].urn)
        except engine.RuleError as error:
            report(str(error), None)

    return crossguard.StackValidationPolicy(
        name=rule.id, validate=validate, **_about(rule, policies.level(rule, Subject.STACK))
    )


def _exceptions(policies: Policies) -> crossguard.Policy:
    def validate(args: crossguard.ResourceValidationArgs, report: crossguard.ReportViolation) -> None:
        value = _manifest(args, *_SUFFIXES)
        if value is None:
            return
        for violation in _checked(value, policies, rules.OF_WORKLOADS):
            if violation.exemption is not None:
                report(f"{violation.rule.id}: {violation.message}, excepted {violation.exemption}", None)

    return crossguard.ResourceValidationPolicy(
        name="exceptions",
        description="Valid exceptions, for readers of the preview",
        validate=validate,
        enforcement_level=crossguard.EnforcementLevel.ADVISORY,
        severity=crossguard.Severity.LOW,
    )


def _checked(
    value: dict[str, Any], policies: Policies, only: Sequence[Rule], of: Rule | None = None
) -> tuple[Violation, ...]:
    """What the rules say, without those that end with an exception, which their own policies report.

    Raises `RuleError` if `of` ends with one, the rule of the policy that calls this.
    """
    while True:
        try:
            return engine.check(value, date.today(), policies, only)
        except engine.RuleError as error:
            if error.rule is of:
                raise
            only = [rule for rule in only if rule is not error.rule]


def _about(rule: About, level: Level) -> dict[str, Any]:
    schema = _schema(rule.parameters)
    return {
        "description": f"{rule.title}.",
        "display_name": rule.title,
        "enforcement_level": crossguard.EnforcementLevel(level.value),
        "severity": crossguard.Severity(rule.severity.value),
        "remediation_steps": rule.remedy,
        "tags": ["trainyard"],
        "config_schema": crossguard.PolicyConfigSchema(properties=schema) if schema else None,
    }


def _schema(names: Sequence[str]) -> dict[str, dict[str, Any]]:
    """The JSON types of parameters; their content is checked when they are used."""
    types = {}
    for key in map(spelled, names):
        kind = _properties()[key]
        types[key] = {"type": kind.get("type") or kind["anyOf"][0]["type"]}
    return types


@cache
def _properties() -> Mapping[str, Any]:
    """The JSON schema of each parameter: made once, for 54 policies ask for it."""
    properties: Mapping[str, Any] = Parameters.model_json_schema()["properties"]
    return properties


def _enforced(policies: Policies, subject: Subject, rule: About, config: Mapping[str, Any]) -> Policies:
    """The stack's policies with the rule switched on, as the engine has decided, and the config applied."""
    by_subject = policies.levels.model_dump(by_alias=True)
    by_subject[subject] = {**by_subject[subject], rule.id: Level.MANDATORY}
    levels = Levels.model_validate(by_subject)
    parameters = policies.parameters
    if config:
        values = {**parameters.model_dump(by_alias=True), **_plain(config)}
        parameters = Parameters.model_validate(values, by_alias=True, by_name=False)
    return Policies(levels=levels, parameters=parameters)


def _is_workload(request: Any) -> bool:
    """Whether the resource of a request is one that rules of workloads are about."""
    fields = request.properties.fields
    return is_workload({key: fields[key].string_value for key in ("apiVersion", "kind") if key in fields})


def _drop_schemas(crd: Any) -> None:
    """Take the schemas of its versions out of the properties of a CRD, a `google.protobuf.Struct`."""
    for version in crd.fields["spec"].struct_value.fields["versions"].list_value.values:
        version.struct_value.fields.pop("schema", None)


def _manifest(args: crossguard.ResourceValidationArgs, *subjects: Subject) -> dict[str, Any] | None:
    """The runtime or TrainJob that a resource is, with its name in the program; None for other subjects."""
    # First, for each rule is asked about each resource, and to unpack one takes longer than most rules.
    if not _is_object(args.resource_type) or engine.subject(args.props) not in subjects:
        return None
    value = dict(_plain(args.props))
    value["metadata"] = {"name": args.name, **(value.get("metadata") or {})}
    return value


def _is_object(resource_type: str) -> bool:
    """Whether a resource is a Kubernetes object, and not a patch of somebody else's."""
    return resource_type.startswith(_TYPE) and not resource_type.endswith("Patch")


def _plain(value: Any) -> Any:
    """The value without the proxies that watch for unknowns; raises `UnknownValueError` at one."""
    if isinstance(value, Mapping):
        return {key: _plain(value[key]) for key in value}
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        return [_plain(value[position]) for position in range(len(value))]
    return value


def _without_unknowns(value: Any) -> Any:
    """The value as far as it is known yet."""
    if isinstance(value, Mapping):
        entries = {}
        for key in value:
            try:
                entries[key] = _without_unknowns(value[key])
            except UnknownValueError:
                continue
        return entries
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        return [_without_unknowns(value[position]) for position in range(len(value))]
    return value


def _sentences(where: str, error: ValidationError, model: type[BaseModel]) -> Iterator[str]:
    for location, sentence in strict.sentences(error, model):
        yield f"{strict.path(where, location)}: {sentence}"
