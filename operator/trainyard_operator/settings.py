"""The operator's settings: the configuration file, and the flags that take precedence over it."""

from __future__ import annotations

import argparse
import logging
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from pydantic import ValidationError

from trainyard_api import documents, names, strict
from trainyard_api.configuration import API_VERSION, KIND, Configuration, Webhook
from trainyard_api.errors import UserError
from trainyard_kube.credentials import SERVICE_ACCOUNT
from trainyard_policies.settings import Policies, of_known_rules

logger = logging.getLogger(__name__)

_DEFAULT: Final = Configuration()
_GATES: Final = "featureGates"


class SettingsError(UserError):
    """The operator's settings are invalid; each line names a place and the way out."""


@dataclass(frozen=True, slots=True)
class _Flag:
    """A flag and the field of the configuration that it sets."""

    name: str
    field: str
    metavar: str
    help: str
    read: Callable[[str], Any] = str


_FLAGS: Final = (
    _Flag(
        "--kubeconfig",
        "clientConnection.kubeconfig",
        "FILE",
        "default: $KUBECONFIG, in-cluster, ~/.kube/config",
    ),
    _Flag(
        "--context",
        "clientConnection.context",
        "NAME",
        "context of the kubeconfig (default: its current one)",
    ),
    _Flag(
        "--workers",
        "controller.concurrency",
        "N",
        f"TrainJobs at a time (default: {_DEFAULT.controller.concurrency})",
        int,
    ),
    _Flag(
        "--namespace",
        "namespace",
        "NAME",
        f"the operator's own (default: $POD_NAMESPACE, in-cluster, {names.SYSTEM_NAMESPACE})",
    ),
    _Flag(
        "--upstream-namespace",
        "upstreamNamespace",
        "NAME",
        f"where Kubeflow Trainer's controller would run (default: {_DEFAULT.upstream_namespace})",
    ),
    _Flag("--metrics-host", "metrics.host", "ADDRESS", "address of metrics and probes (default: all)"),
    _Flag(
        "--metrics-port",
        "metrics.port",
        "PORT",
        f"port of metrics and probes (default: {_DEFAULT.metrics.port})",
        int,
    ),
    _Flag("--webhook-host", "webhook.host", "ADDRESS", "address of the webhooks (default: all)"),
    _Flag(
        "--webhook-port",
        "webhook.port",
        "PORT",
        f"port of the webhooks (default: {_DEFAULT.webhook.port})",
        int,
    ),
    _Flag(
        "--certificate-dir",
        "certManagement.folder",
        "FOLDER",
        "folder with tls.crt, tls.key and ca.crt, as cert-manager's Secret is mounted; "
        "read again when they change (default: the operator makes its own)",
    ),
    _Flag(
        "--webhook-policies",
        "webhook.policies",
        "FILE",
        "levels and parameters of the policy rules (default: the webhook applies none)",
    ),
    _Flag("--status-host", "statusServer.host", "ADDRESS", "address of the status server (default: all)"),
    _Flag(
        "--status-port",
        "statusServer.port",
        "PORT",
        f"port of the status server (default: {_DEFAULT.status_server.port})",
        int,
    ),
    _Flag("--log-format", "logging.format", "FORMAT", "auto (default: text on a terminal), json or text"),
)


def parse(arguments: Sequence[str] | None = None) -> Configuration:
    """Read the command line (default: this process's) and the file that it names.

    Exits with 2, and the errors on stderr, if they are invalid.
    """
    parser = _parser()
    options = parser.parse_args(sys.argv[1:] if arguments is None else arguments)
    try:
        return load(options.config, _given(options))
    except SettingsError as error:
        print(error, file=sys.stderr)
        sys.exit(2)


def load(file: str | None = None, flags: Mapping[str, tuple[str, Any]] | None = None) -> Configuration:
    """The settings of a file, if any, and of flags, which take precedence.

    `flags` has for a field, such as `webhook.port`, the flag that sets it and
    the value. Raises `SettingsError`.
    """
    flags = flags or {}
    written = None if file is None else _read(file)
    value: Mapping[str, Any] = {} if written is None else written.value
    for field, (_, given) in flags.items():
        value = _with(value, field.split("."), given)
    try:
        configuration = Configuration.model_validate(value, by_alias=True, by_name=False)
    except ValidationError as error:
        problems = []
        for location, sentence in strict.sentences(error, Configuration):
            field = strict.path("", location)
            place = flags[field][0] if field in flags else f"{_where(written, location)}: {field}"
            problems.append(f"{place}: {sentence}")
        raise SettingsError("\n".join(problems)) from None
    if configuration.namespace:
        return configuration
    return configuration.model_copy(update={"namespace": own_namespace()})


def load_policies(webhook: Webhook) -> Policies | None:
    """The policies in the webhook's file; None if there is none, or the webhook is off.

    Warns of levels of rules that this image lacks, and leaves them out: otherwise no webhook would answer
    until the image has a site's new rule. Raises `SettingsError`.
    """
    if not webhook.enabled or webhook.policies is None:
        return None
    written = _document(webhook.policies)
    value, left_out = of_known_rules(written.value)
    for subject, rule in left_out:
        logger.warning(
            "%s: levels.%s: this image has no rule %r, so the webhooks do not apply it: build the operator's "
            "image with it (docs/own-repository.md)",
            _where(written, ("levels", subject, rule)),
            subject,
            rule,
        )
    try:
        return Policies.model_validate(value, by_alias=True, by_name=False)
    except ValidationError as error:
        sentences = strict.sentences(error, Policies)
        problems = [f"{_where(written, at)}: {strict.path('', at)}: {sentence}" for at, sentence in sentences]
        raise SettingsError("\n".join(problems)) from None


def own_namespace() -> str:
    """$POD_NAMESPACE, else the service account's namespace, else `trainyard-system`."""
    if namespace := os.environ.get("POD_NAMESPACE"):
        return namespace
    file = Path(SERVICE_ACCOUNT) / "namespace"
    if file.exists():
        return file.read_text().strip() or names.SYSTEM_NAMESPACE
    return names.SYSTEM_NAMESPACE


def _where(document: documents.Document | None, field: Sequence[str | int]) -> str:
    """`file:line` of a field; without a file, the flags must be at fault."""
    return "flags" if document is None else f"{document.source}:{document.position(field).line}"


def _read(name: str) -> documents.Document:
    document = _document(name)
    for field, expected in (("apiVersion", API_VERSION), ("kind", KIND)):
        if field not in document.value:
            raise SettingsError(f"{document.place}: {field}: is required; it is {expected}")
    return document


def _document(name: str) -> documents.Document:
    try:
        text = Path(name).read_text(encoding="utf-8")
        yaml_documents = documents.parse(text, name)
    except OSError as error:
        raise SettingsError(f"{name}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise SettingsError(f"{name}: not UTF-8") from error
    except documents.DocumentError as error:
        raise SettingsError(str(error)) from error
    if len(yaml_documents) != 1:
        raise SettingsError(f"{name}:1: must hold one YAML document, holds {len(yaml_documents)}")
    return yaml_documents[0]


def _with(value: Mapping[str, Any], path: Sequence[str], given: Any) -> Mapping[str, Any]:
    """`value` with the field at `path` set; unchanged, which is an error, if something is in its way."""
    head, *rest = path
    if not rest:
        return {**value, head: given}
    below = value.get(head, {})
    return {**value, head: _with(below, rest, given)} if isinstance(below, Mapping) else value


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m trainyard_operator", description="Runs TrainJobs as JobSets."
    )
    parser.add_argument(
        "--config",
        metavar="FILE",
        help=f"{KIND} of {API_VERSION}; flags take precedence over it (docs/configuration.md)",
    )
    for flag in _FLAGS:
        parser.add_argument(flag.name, dest=flag.field, type=flag.read, metavar=flag.metavar, help=flag.help)
    parser.add_argument(
        "--webhook",
        dest="webhook.enabled",
        action=argparse.BooleanOptionalAction,
        help="answer admission requests (default: yes)",
    )
    parser.add_argument(
        "--feature-gates",
        dest=_GATES,
        type=_gates,
        metavar="NAME=true,...",
        help="turn gates on or off: TrainJobStatus (default: off)",
    )
    return parser


def _given(options: argparse.Namespace) -> dict[str, tuple[str, Any]]:
    given = dict(vars(options))
    del given["config"]
    gates = given.pop(_GATES) or {}
    called = {flag.field: flag.name for flag in _FLAGS}
    flags = {
        field: (called.get(field, "--webhook"), value) for field, value in given.items() if value is not None
    }
    return flags | {f"{_GATES}.{gate}": ("--feature-gates", on) for gate, on in gates.items()}


def _gates(text: str) -> dict[str, bool]:
    gates = {}
    for entry in filter(None, text.split(",")):
        name, _, value = entry.partition("=")
        if value not in ("true", "false"):
            raise argparse.ArgumentTypeError(f"{entry}: must be NAME=true or NAME=false")
        gates[name] = value == "true"
    return gates
