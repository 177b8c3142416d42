"""The command as somebody of team-a runs it: `ada` sends TrainJobs, `vera` may only look."""

from __future__ import annotations

import subprocess

from tests.support.cluster import A_SHELLS_OWN, Cluster
from trainyard_sandbox.paths import PROJECT

TRAINYARD = str(PROJECT / ".venv" / "bin" / "trainyard")


def of(team_a: Cluster, person: str) -> dict[str, str]:
    """The environment of somebody of team-a."""
    return {**A_SHELLS_OWN, **team_a.sandbox.environment(person, "team-a")}


def trainyard(team_a: Cluster, person: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """What the command answers somebody of team-a."""
    return subprocess.run(
        [TRAINYARD, *arguments],
        env=of(team_a, person),
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
