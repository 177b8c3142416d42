"""R-21 to R-24: whichever way a TrainJob came to what it says, its JobSet is the same.

The state machine of `test_machine` (R-27), in which users also patch suspended
jobs, runtimes change, go and come back, and JobSets are refused for a while.
When all of this ends, each JobSet is what the TrainJob as it is now makes of
the runtime that it began with, as if it had just been created: no order of
patches, no way back, no fault and no other runtime shows in it.
"""

import copy

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import invariant, rule

from tests.support import objects
from tests.support.fake_api import status
from trainyard_api import names
from trainyard_operator.core.build import plugins
from trainyard_operator.core.build.info import DEFAULT_SETTINGS
from trainyard_operator.core.decide import revisions
from trainyard_operator.core.decide.views import trainjob_of

from .machine import ALL, FEW, HOURS, MORE, NAMES, RUNTIME, Machine, ended, owner, run

LABELS = st.sampled_from([None, "1", "2"])
IMAGES = st.sampled_from(["img", "img-2", "img-3"])
REFUSALS = {
    "quota": status(403, "Forbidden", 'jobsets "a" is forbidden: exceeded quota: gpus'),
    "webhook": status(400, "BadRequest", 'admission webhook "v.jobset" denied the request: no'),
    "rights": status(403, "Forbidden", "User cannot create resource jobsets"),
}


def runtime(image, generation):
    """The runtime with this image."""
    found = copy.deepcopy(objects.runtime())
    (job,) = found["spec"]["template"]["spec"]["replicatedJobs"]
    job["template"]["spec"]["template"]["spec"]["containers"][0]["image"] = image
    found["metadata"]["generation"] = generation
    return found


def labelled(value):
    """Patches that add a label to the JobSet; none for None."""
    if value is None:
        return []
    template = {"template": {"metadata": {"labels": {"tests.example.com/v": value}}}}
    return [{"manager": "tests.example.com/tests", "trainingRuntimeSpec": template}]


class Journeys(Machine):
    def __init__(self):
        super().__init__()
        self.generation = 1
        self.began = {}
        """By uid of a TrainJob: the revision that its first JobSet named."""
        self.went = False
        """Whether the runtime was ever deleted: one that comes back is another."""

    @rule(name=NAMES, value=LABELS, resume=st.booleans())
    def user_suspends_and_patches(self, name, value, resume):
        """As the webhook lets them: not while the JobSet runs."""
        job, jobset = f"{objects.JOBS}/{name}", f"{objects.JOBSETS}/{name}"
        self.user_creates(name, suspend=True, deadline=None)
        self.change(job, "spec", suspend=True)
        self.all_is_told_and_done()
        if jobset not in self.world.objects or self.world.objects[jobset]["spec"].get("suspend"):
            self.change(job, "spec", runtimePatches=labelled(value), suspend=not resume)

    @rule(image=IMAGES)
    def runtime_changes(self, image):
        self.generation += 1
        old = self.world.objects.get(RUNTIME)
        if old is not None:
            new = runtime(image, self.generation)
            self.world.put(RUNTIME, {**new, "metadata": {**old["metadata"], **new["metadata"]}})
            self.scene.see(RUNTIME, "MODIFIED")

    @rule()
    def runtime_goes(self):
        if (old := self.world.objects.get(RUNTIME)) is not None:
            self.went = True
            self.world.remove(RUNTIME)
            self.scene.controller.seen("clustertrainingruntimes", "DELETED", old)

    @rule(image=IMAGES)
    def runtime_comes_back(self, image):
        if RUNTIME not in self.world.objects:
            self.world.put(RUNTIME, runtime(image, 1))
            self.scene.see(RUNTIME)

    @rule(why=st.sampled_from(sorted(REFUSALS)), times=st.integers(1, 3))
    def jobsets_are_refused(self, why, times):
        for _ in range(times):
            self.world.refuse_next("POST", "/jobsets", REFUSALS[why])

    @invariant()
    def each_keeps_the_runtime_that_it_began_with(self):
        for path, jobset in self.world.objects.items():
            if "/jobsets/" in path and not self.went:
                named = jobset["metadata"]["annotations"][names.RUNTIME_REVISION_ANNOTATION]
                assert self.began.setdefault(owner(jobset), named) == named, path

    def come_to_rest(self):
        self.world._refusals.clear()
        self.runtime_comes_back("img")
        super().come_to_rest()

    def is_right(self, job, jobset):
        super().is_right(job, jobset)
        if not ended(job):
            name = jobset["metadata"]["annotations"][names.RUNTIME_REVISION_ANNOTATION]
            revision = next(body for path, body in self.world.objects.items() if path.endswith(f"/{name}"))
            wanted = built(job, revisions.read(revision))
            wanted["spec"]["suspend"] = job["spec"].get("suspend", False)
            assert plain(jobset) == plain(wanted)


def plain(jobset):
    """Spec and labels of a JobSet; without the mark that says since when its pods are placed as they are."""
    spec = copy.deepcopy(jobset["spec"])
    for replicated in spec["replicatedJobs"]:
        metadata = replicated["template"]["spec"]["template"].pop("metadata", {})
        metadata.get("annotations", {}).pop(names.PLACEMENT_ANNOTATION, None)
        assert metadata in ({}, {"annotations": {}})
    return spec, jobset["metadata"].get("labels", {})


def built(job, begun_with):
    """The JobSet of a TrainJob that is made in an empty world, with the runtime at hand."""
    made = plugins.ALL.children(trainjob_of(job), begun_with, DEFAULT_SETTINGS)
    return next(child.manifest for child in made if child.manifest["kind"] == "JobSet")


@pytest.mark.parametrize(("orders", "steps"), [FEW, MORE, ALL])
def test_whichever_way_it_came_to_be_the_jobset_is_the_same(tried, orders, steps):
    run(Journeys, orders, steps)
    tried("R-21 to R-24 any way to any state", orders, HOURS)
