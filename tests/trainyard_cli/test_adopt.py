"""`trainyard adopt`: the commands that it names."""

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from tests.support.fake_api import FakeApi
from tests.support.typed import typed
from trainyard_assist import adopt
from trainyard_assist.adopt.model import Ref
from trainyard_cli.commands import adopt as command
from trainyard_cli.output import Output

LAB: dict[str, Any] = {"kubeconfig": "my config", "context": "lab"}
NAMESPACES: dict[str, Any] = {"trainer_namespace": "kf", "operator_namespace": "ty"}
ON_LAB = (
    "trainyard adopt --kubeconfig 'my config' --context lab --trainer-namespace kf --operator-namespace ty"
)


@pytest.mark.parametrize(
    ("options", "itself"), [({}, "trainyard adopt"), ({**LAB, **NAMESPACES}, ON_LAB)], ids=["", "elsewhere"]
)
@pytest.mark.parametrize("back", [False, True])
def test_the_next_commands_act_on_the_same_cluster_and_namespaces(
    options: dict[str, Any], itself: str, back: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    step = adopt.Delete(Ref("v1", "ConfigMap", "kf", "c"), "uid", "why")

    def planned(_: adopt.Observed, command: str) -> adopt.Plan:
        return adopt.Plan(back, (), steps=(step,), next_steps=(command,))

    async def observed(*_: Any, **__: Any) -> adopt.Observed:
        return adopt.Observed(datetime.now(UTC), None)

    monkeypatch.setattr(adopt, "give_back" if back else "adopt", planned)
    monkeypatch.setattr(command, "observe", observed)
    _, out, _ = typed(FakeApi(), monkeypatch, command.run, back=back, **options)
    to_do_it = f"{itself} --back --yes" if back else f"{itself} --yes"
    assert out.splitlines()[-1] == f"Nothing has been changed. To do it: {to_do_it}"
    _, out, _ = typed(FakeApi(), monkeypatch, command.run, back=back, output=Output.JSON, **options)
    assert json.loads(out)["next"] == [itself]
