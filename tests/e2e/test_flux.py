"""The platform by Flux: its real controllers bring commits of a git repository into an empty cluster."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.support.cluster import Cluster, sandbox_of_its_own, trainjob
from tests.support.patience import STARTED, eventually
from trainyard_sandbox.paths import PROJECT

from . import flux

pytestmark = pytest.mark.soak  # builds Flux, and rolls a whole platform out once more


@pytest.fixture(scope="module")
def empty() -> Iterator[Cluster]:
    """A sandbox with nothing installed."""
    with sandbox_of_its_own("flux") as cluster:
        yield cluster


def test_a_commit_makes_a_platform_a_bad_one_breaks_nothing_and_its_revert_heals(
    empty: Cluster, tmp_path: Path
) -> None:
    flux.install(empty, tmp_path)
    cluster = empty.within(flux.NAMESPACE)
    with flux.repository(empty, tmp_path) as repository:
        manifests = repository.clone / "manifests"
        empty.run("make", "manifests", "STACK=sandbox", f"OUTPUT={manifests}")
        waves = [folder.name.removeprefix("wave-") for folder in sorted(manifests.glob("wave-*"))]
        commit = repository.commit("The platform")
        empty.apply(*flux.objects(PROJECT / "examples" / "gitops" / "flux.yaml", repository, waves))
        flux.applied(cluster, waves, commit)
        empty.apply(trainjob("by-flux"))
        empty.wait_for_condition("by-flux", "Complete")

        [path] = manifests.glob("wave-*/clustertrainingruntime-plain.yaml")
        wave = path.parent.name.removeprefix("wave-")
        runtime = yaml.safe_load(path.read_text())
        runtime["metadata"]["labels"]["example.com/team"] = "research"
        path.write_text(yaml.safe_dump(runtime))
        commit = repository.commit("A label for the runtime")
        flux.applied(cluster, waves, commit)
        labels = (empty.get("clustertrainingruntime", "plain") or {})["metadata"]["labels"]
        assert labels["example.com/team"] == "research"

        before = empty.get("clustertrainingruntime", "plain") or {}
        del runtime["metadata"]["labels"]["trainer.kubeflow.org/framework"]
        path.write_text(yaml.safe_dump(runtime))
        bad = repository.commit("A runtime without a framework")
        refused = eventually("it is refused", lambda: flux.ready(cluster, wave, bad), within=STARTED)
        assert refused["status"] == "False"
        assert "ClusterTrainingRuntime/plain" in refused["message"]
        assert "trainer.kubeflow.org/framework" in refused["message"]
        assert empty.get("clustertrainingruntime", "plain") == before
        empty.apply(trainjob("meanwhile"))
        empty.wait_for_condition("meanwhile", "Complete")

        repository.git("revert", "--no-edit", "HEAD")
        flux.applied(cluster, waves, repository.push())
        assert (empty.get("clustertrainingruntime", "plain") or {})["spec"] == before["spec"]
