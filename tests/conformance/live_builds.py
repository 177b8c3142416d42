"""The manifests that are built by both controllers."""

from functools import cache

from tests.support import live
from tests.support.corpus import GOLDEN, RUNTIMES, cases, load
from tests.support.generated import COUNT, drawn
from trainyard_api import documents
from trainyard_assist.render import render
from trainyard_operator.core.build.info import Settings

from .compare import differences, normal

CORPUS = cases(GOLDEN / "trainjobs")
GENERATED = [f"made-{number:02d}" for number in range(COUNT)]
GANGS = {"gang-coscheduling": {"coscheduling": {}}, "gang-volcano": {"volcano": {}}}
"""By case: a gang for a launcher that waits for its workers."""
CASES = [*(f"tj-{case}" for case in CORPUS), *GENERATED, *GANGS]
"""The names of all TrainJobs: known without making them, which takes ten seconds."""


@cache
def manifests(asked=frozenset(CASES)):
    """The runtimes of the corpus and of the cases that are asked for, and by case their TrainJobs."""
    runtimes = [runtime for path in RUNTIMES for runtime in load(path)]
    jobs = {}
    for case in CORPUS:
        (job,) = load(GOLDEN / "trainjobs" / f"{case}.yaml")
        jobs[f"tj-{case}"] = {**job, "metadata": {**job["metadata"], "name": f"tj-{case}"}}
    for number, case in enumerate(GENERATED):
        if case not in asked:
            continue
        runtime, spec = drawn(number)
        kind, name = "ClusterTrainingRuntime", runtime
        if not isinstance(runtime, str):
            # Every other one is a namespaced runtime.
            kind, name = ("TrainingRuntime" if int(case[-2:]) % 2 else kind), case
            runtimes.append(
                {"apiVersion": live.TRAINER, "kind": kind, "metadata": {"name": case}, "spec": runtime}
            )
        jobs[case] = live.trainjob(case, name, kind, **spec)
    (mpi,) = load(GOLDEN / "runtimes" / "deepspeed-distributed.yaml")
    for case, gang in GANGS.items():
        runtimes.append({**mpi, "metadata": {"name": case}, "spec": {**mpi["spec"], "podGroupPolicy": gang}})
        jobs[case] = live.trainjob(case, case, trainer={"numNodes": 3})
    return runtimes, {case: job for case, job in jobs.items() if case in asked}


def mended(case):
    """Paths at which ours differs from what it builds for a JobSet that Trainer has made (docs/adr/0032)."""
    runtimes, jobs = manifests(frozenset({case}))
    given = documents.parse(documents.dump([*runtimes, jobs[case]]), case)
    namespace = jobs[case]["metadata"].get("namespace", "default")
    before, now = (
        {
            f"{child['kind']} {child['metadata']['name']}": normal(child)
            for child in render(given, settings=settings, namespace=namespace)
            if child["kind"] != "Secret"
        }
        for settings in (Settings(built_as=1), Settings())
    )
    return set(differences(before, now))
