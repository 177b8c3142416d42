"""The pictures of a terminal in docs/pictures: of what is printed now, and no other."""

import io
import re
from datetime import UTC, datetime

import pytest

from tests.support.checked_in import ROOT, hold
from tests.support.run_runtimes import runtime
from tests.support.terminal_picture import svg
from trainyard_assist import attach, jobs
from trainyard_assist.explain import Observation, explain
from trainyard_assist.logs import Place
from trainyard_assist.queue_place import QueuePlace
from trainyard_assist.run import plan, settings
from trainyard_assist.run.plan import Draft, Queue
from trainyard_assist.run.trainjob import trainjob
from trainyard_cli.cluster.logs import Pod, Source
from trainyard_cli.printer import Printer

PICTURES = ROOT / "docs" / "pictures"
TITLES = {
    "demo": "make demo: a two-node PyTorch job, sent with the Kubeflow SDK, trains and is complete",
    "run": "trainyard run: the plan, a question, and the log of both nodes to the end of the job",
}
NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
WORDS = "--nodes 2 --gpus 8 --memory 64Gi -- python train.py --epochs 3"


def a_run() -> str:
    """What `trainyard run` prints about a job that starts at once."""
    command, options = WORDS.partition(" -- ")[2], {"nodes": 2, "gpus": 8, "memory": "64Gi"}
    chosen = settings.of_options({**options, "command": command.split()})
    on = runtime(name="torch-distributed", image="docker.io/pytorch/pytorch:2.13.0-cuda13.0-cudnn9-runtime")
    job = trainjob(chosen, on, namespace="team-a", name="train-x7k2f")
    draft = Draft(
        trainjob=job,
        runtime=on,
        queue=Queue(name="default", verdict="starts now", place=QueuePlace(1, "ClusterQueue team-a")),
        workspace=("/home/ada/resnet: 12 files, 34.1 KiB; commit 4b1d0c6a2f of main",),
    )
    running = {**job, "status": {"trainyard": {"state": "Running", "nodes": "2/2"}}}
    ended = {"type": "Complete", "status": "True", "message": "jobset completed successfully in 12 min 4 s"}
    complete = {**job, "status": {"conditions": [{**ended, "lastTransitionTime": "2026-01-01T12:00:00Z"}]}}
    return "\n".join(
        [
            f"$ trainyard run {WORDS}",
            *plan.lines(draft, NOW),
            "Send it? [y/N]: y",
            "TrainJob team-a/train-x7k2f is sent.",
            attach.line(jobs.row(running), NOW),
            *logs("epoch 1 of 3: loss 2.1226", "epoch 2 of 3: loss 0.6108", "epoch 3 of 3: loss 0.0417"),
            explain(Observation(trainjob=complete, now=NOW)).answer,
            "",
        ]
    )


def logs(*epochs: str) -> list[str]:
    """The log of two nodes, as it is printed."""
    out = io.StringIO()
    ranks = [
        Source(Pod(f"train-x7k2f-node-0-{index}", str(index), Place("node", index), "node"), str(index))
        for index in (0, 1)
    ]
    begins = [("", rank, f"node {rank.label} of 2 has 8 GPUs") for rank in ranks]
    Printer(out, "", marked=True).show([*begins, *(("", ranks[0], epoch) for epoch in epochs)])
    return out.getvalue().splitlines()


def test_the_text_about_run_is_what_it_prints() -> None:
    hold(PICTURES / "run.txt", a_run())


@pytest.mark.parametrize("name", TITLES)
def test_a_picture_is_that_of_its_text(name: str) -> None:
    hold(PICTURES / f"{name}.svg", svg((PICTURES / f"{name}.txt").read_text(encoding="utf-8"), TITLES[name]))


def test_the_recorded_demo_says_what_it_says_now() -> None:
    """Its numbers and names are of one run; the words are in what prints them."""
    folder = ROOT / "examples" / "digits"
    printing = "".join(
        path.read_text() for path in (ROOT / "Makefile", folder / "submit.py", folder / "train.py")
    )
    recorded = (PICTURES / "demo.txt").read_text(encoding="utf-8").splitlines()[1:]
    said = [line for line in recorded if not line.startswith("  ")]  # the others have names and phases alone
    words = {line: re.findall(r"(?:^|(?<= ))[A-Za-z=]{2,}(?= |:|\.?$)", line) for line in said}
    missing = {line: [word for word in each if word not in printing] for line, each in words.items()}
    assert {line: each for line, each in missing.items() if each} == {}


def test_the_readme_shows_the_pictures_and_says_what_is_on_them() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    for name, title in TITLES.items():
        assert f"![{title}](docs/pictures/{name}.svg)" in readme
