"""The tables in docs/ say what there is."""

from __future__ import annotations

from collections.abc import Iterator

from pydantic import BaseModel

from tests.support.checked_in import ROOT, hold, with_table
from trainyard_api import descriptions
from trainyard_api.configuration import Configuration, Retention
from trainyard_kube.credentials import Credentials
from trainyard_operator.main import Operator

CONFIGURATION, METRICS = ROOT / "docs/configuration.md", ROOT / "docs/metrics.md"


def rows(model: BaseModel, path: str = "") -> Iterator[str]:
    shown = model.model_dump(by_alias=True)
    texts = descriptions.of(type(model))
    for name, field in type(model).model_fields.items():
        key = f"{path}{field.alias}"
        value = getattr(model, name)
        if isinstance(value, BaseModel):
            yield from rows(value, f"{key}.")
        else:
            default = "" if shown[field.alias] in (None, "") else f"`{_yaml(shown[field.alias])}`"
            yield f"| `{key}` | {default} | {' '.join(texts.get(name, '').split())} |"


def _yaml(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def test_every_field_of_the_configuration_is_documented() -> None:
    header = ["| field | default | |", "|---|---|---|"]
    told = [row for row in rows(Configuration(retention=Retention())) if "`kind`" not in row]
    table = header + [row for row in told if "`apiVersion`" not in row]
    hold(CONFIGURATION, with_table(CONFIGURATION.read_text(), table))


def test_every_metric_is_documented_and_has_the_operators_prefix() -> None:
    operator = Operator(Configuration(namespace="n"), Credentials(server="http://127.0.0.1", tls=None))
    collectors = {id(c): c for c in operator.metrics.registry._names_to_collectors.values()}
    table = []
    for family in operator.metrics.registry.collect():
        suffix = "_total" if family.type == "counter" else ""
        labels = next(
            (
                getattr(c, "_labelnames", ())
                for c in collectors.values()
                if getattr(c, "_name", "") == family.name
            ),
            tuple(family.samples[0].labels) if family.samples else (),
        )
        assert family.name.startswith("trainyard_")
        shown = ", ".join(f"`{label}`" for label in labels)
        table.append(f"| `{family.name}{suffix}` | {family.type} | {shown} | {family.documentation} |")
    header = ["| metric | type | labels | |", "|---|---|---|---|"]
    hold(METRICS, with_table(METRICS.read_text(), header + sorted(table)))
