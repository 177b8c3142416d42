"""The file with a stack's policies, which the operator reads again when it changes."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from trainyard_api.configuration import Webhook
from trainyard_operator.serve.policy_file import PolicyFile
from trainyard_operator.settings import SettingsError
from trainyard_policies.settings import Policies

SMALL, LARGE = (Policies.model_validate({"parameters": {"maxNodes": nodes}}) for nodes in (2, 8))


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "policies.yaml"
    path.write_text("parameters: {maxNodes: 2}\n")
    return path


def test_policies_that_change_are_served_without_a_restart(file: Path) -> None:
    served: list[Policies] = []
    follower = PolicyFile(Webhook(policies=str(file)))
    assert (follower.policies, served) == (SMALL, [])
    follower.step(served.append)
    file.write_text("parameters: {maxNodes: 8}\n")
    follower.step(served.append)
    follower.step(served.append)
    assert served == [LARGE]


@pytest.mark.parametrize(
    "content", ["parameters: {maxNodes: none}\n", "parameters: [\n", "\x00", "a: 1\n---\n"]
)
def test_a_mistake_in_them_is_said_once_and_changes_nothing(
    file: Path, content: str, caplog: pytest.LogCaptureFixture
) -> None:
    served: list[Policies] = []
    follower = PolicyFile(Webhook(policies=str(file)))
    file.write_text(content)
    with caplog.at_level(logging.WARNING):
        follower.step(served.append)
        follower.step(served.append)
    assert (len(caplog.messages), served) == (1, [])
    assert str(file) in caplog.text
    file.write_text("parameters: {maxNodes: 8}\n")
    follower.step(served.append)
    assert served == [LARGE]


def test_a_file_that_is_away_for_a_moment_changes_nothing(file: Path) -> None:
    served: list[Policies] = []
    follower = PolicyFile(Webhook(policies=str(file)))
    file.unlink()
    follower.step(served.append)
    file.write_text("parameters: {maxNodes: 2}\n# as before\n")
    follower.step(served.append)
    assert served == []


def test_a_mistake_at_the_start_ends_it_and_without_a_file_there_are_no_policies(file: Path) -> None:
    assert PolicyFile(Webhook()).policies is None
    assert PolicyFile(Webhook(enabled=False, policies="/no/such/file")).policies is None
    file.write_text("[]\n")
    with pytest.raises(SettingsError):
        PolicyFile(Webhook(policies=str(file)))
