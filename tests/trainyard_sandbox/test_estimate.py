"""The bar is right to a fifth, on machines of any speed."""

from dataclasses import dataclass
from itertools import pairwise

import pytest

from trainyard_sandbox.estimate import Kind, Part, Seen, about, seconds_left
from trainyard_sandbox.images import Images
from trainyard_sandbox.toolchain import Toolchain, tools

MEASURED = {
    # A build of everything on two cores, in seconds since its begin: when each part began and ended.
    "kubernetes": (0, 1751),
    "pulumi-resource-kubernetes": (0, 1920),
    "pulumi": (1752, 2323),
    "volcano": (1921, 2423),
    "kueue": (2324, 2810),
    "scheduler-plugins": (2424, 2784),
    "etcd": (2785, 2837),
    "kube-router": (2813, 2862),
    "kwok": (2838, 2882),
    "coredns": (2863, 2935),
    "jobset": (2883, 2891),
    "local-path-provisioner": (2892, 2903),
    "pause": (2903, 2904),
    "base debian": (0, 275),
    "image busybox": (276, 370),
    "image operator": (371, 610),
    "image initializers": (611, 845),
    "image torch-cpu": (846, 1769),
    "image mpi": (1770, 1890),
    "image jax-xgboost": (1891, 2172),
    "base small": (2959, 3010),
    "image volcano-webhook-manager": (3011, 3027),
}
TOTAL = 3034.0


def expected() -> list[Part]:
    """What is expected of a machine with nothing on it."""
    listed = Images.read(Toolchain([]))
    seconds = {
        **{name: tool.work(MEASURED)[0] for name, tool in TOOLS.items()},
        **{f"image {image.name}": image.seconds for image in listed.images},
        **{f"base {base.name}": base.seconds for base in listed.bases.values()},
    }
    return [Part(name, Kind.BUILD, seconds[name]) for name in MEASURED]


TOOLS = tools()
EXPECTED = expected()


def seen(now: float, speed: float) -> dict[str, Seen]:
    """What one sees at a time of the same run on a machine of another speed."""
    seen = {}
    for name, (start, end) in MEASURED.items():
        began, ended = start / speed, end / speed
        if began <= now:
            share = (now - began) / (ended - began) if name in TOOLS else None
            seen[name] = Seen(began, ended if ended <= now else None, share)
    return seen


@pytest.mark.parametrize("speed", [0.3, 0.5, 1, 1.8, 3, 10])
@pytest.mark.parametrize("share", [0.1, 0.2, 0.35, 0.5, 0.65, 0.8, 0.9])
def test_after_a_tenth_of_the_time_the_whole_is_right_to_a_fifth(speed: float, share: float) -> None:
    now = share * TOTAL / speed
    whole = now + seconds_left(EXPECTED, seen(now, speed), now, cores=2)
    assert whole == pytest.approx(TOTAL / speed, rel=0.2)


def test_before_it_begins_it_is_what_was_measured_on_a_quiet_machine() -> None:
    """28 minutes in docs/sandbox.md, with the unpacking of images."""
    assert seconds_left(EXPECTED, {}, 0, cores=2) / 60 == pytest.approx(27, rel=0.2)


def test_twice_the_cores_take_half_the_time() -> None:
    assert seconds_left(EXPECTED, {}, 0, 4) == pytest.approx(seconds_left(EXPECTED, {}, 0, 2) / 2)


def test_a_download_is_expected_at_the_pace_that_it_shows() -> None:
    parts = [Part.download("archive", 400_000_000)]
    assert seconds_left(parts, {}, 0, 2) == 40
    slow = {"archive": Seen(0, share=0.25)}
    assert seconds_left(parts, slow, 100, 2) == pytest.approx(300, rel=0.2)


def test_what_is_over_takes_no_more_time_and_what_nobody_has_told_of_is_never_nearly_over() -> None:
    part = Part("image", Kind.BUILD, 100)
    assert seconds_left([part], {"image": Seen(0, 50)}, 60, 2) == 0
    assert seconds_left([part], {"image": Seen(0)}, 10_000, 2) > 0


def test_the_bar_does_not_go_back_much() -> None:
    shares = []
    for step in range(1, 60):
        now = step * TOTAL / 60
        shares.append(now / (now + seconds_left(EXPECTED, seen(now, 1), now, cores=2)))
    assert min(after - before for before, after in pairwise(shares)) > -0.02


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(3, "less than a minute"), (61, "about 2 min"), (119, "about 2 min"), (3000, "about 50 min")],
)
def test_an_estimate_is_in_whole_minutes(seconds: float, words: str) -> None:
    assert about(seconds) == words


@dataclass(frozen=True)
class Run:
    """What is built in one run, and the packages that Go then compiles for a tool."""

    built: tuple[str, ...]
    packages: int


@pytest.mark.parametrize(
    ("name", "run"),
    [
        ("kwok", Run(("kwok", "pulumi-resource-kubernetes"), 213)),
        ("kwok", Run(("kwok",), 642)),
        ("kube-router", Run(("kube-router",), 472)),
    ],
)
def test_what_others_would_have_compiled_is_work_where_they_are_not_built(name: str, run: Run) -> None:
    assert TOOLS[name].work(run.built)[1] == run.packages
