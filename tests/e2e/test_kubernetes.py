"""The main job on each version of Kubernetes that is supported besides the usual one."""

import json
import re

import pytest

from tests.support.cluster import sandbox_of_its_own
from trainyard_sandbox.cluster import KUBERNETES, USUAL_KUBERNETES

pytestmark = pytest.mark.soak  # builds Kubernetes twice more


@pytest.mark.parametrize("version", sorted(KUBERNETES.keys() - {USUAL_KUBERNETES}))
def test_the_platform_comes_up_and_digits_are_learnt_on_two_nodes(version: str) -> None:
    with sandbox_of_its_own(f"k8s-{version.replace('.', '-')}", "--kubernetes", version) as cluster:
        server = json.loads(cluster.kubectl("version", "--output=json"))["serverVersion"]
        assert f"{server['major']}.{server['minor']}" == version
        cluster.pulumi("up", "--stack", "sandbox", "--yes", "--skip-preview")
        said = cluster.run("python", "examples/digits/submit.py").stdout
        found = re.search(r"accuracy ([\d.]+) on", said)
        assert found, said
        assert float(found[1]) > 0.95
