"""A wrong stack file is refused, a sentence a mistake: line, what is allowed, the nearest right name."""

from pathlib import Path

import pytest

from tests.support.versions import VERSION
from trainyard_cli.files import stackfile
from trainyard_platform.errors import PlatformError

ROOT = Path(__file__).parents[2]
RIGHT = (ROOT / "stacks" / "Pulumi.onprem.yaml").read_text()
FILE = "Pulumi.prod.yaml"
PLATFORM = "trainyard:platform"


def answer(folder: Path, text: str) -> list[str]:
    """What is said, without the folder."""
    (folder / FILE).write_text(text)
    with pytest.raises(PlatformError) as refused:
        stackfile.read("prod", folder)
    return [line.removeprefix(f"{folder}/") for line in str(refused.value).splitlines()]


def test_the_file_that_the_others_are_made_of_is_right(tmp_path: Path) -> None:
    (tmp_path / FILE).write_text(RIGHT)
    assert stackfile.read("prod", tmp_path).kueue.enabled


MISTAKES = [
    # Versions
    (
        'version: "1.35"',
        'version: "1.29"',
        f"{PLATFORM}.cluster.version: JobSet 0.12 and Kubernetes 1.29 do not work together",
    ),
    (
        "      image: registry.example.com/trainyard/operator",
        "      version: 1.0.0\n      image: registry.example.com/trainyard/operator",
        f"{PLATFORM}.operator.version: a stack cannot choose it: platform/trainyard_platform/artifacts.yaml",
    ),
    # Where a key or a section belongs
    ("config:\n", "confg:\n", "there is no key config with trainyard:platform in it; did you mean confg?"),
    (
        PLATFORM,
        "trainyard:plattform",
        "config.trainyard:plattform: there is no such key; did you mean trainya",
    ),
    (
        "config:\n",
        "secretprovider: x\nconfig:\n",
        "secretprovider: there is no such key (allowed: config, encr",
    ),
    ("    kueue:", "    keueu:", f"{PLATFORM}.keueu: there is no such key (allowed here: "),
    ("    queues:", "    queue:", f"{PLATFORM}.queue: there is no such key (allowed here: "),
    (
        "      clusterQueues:",
        "      clusterqueues:",
        f"{PLATFORM}.queues.clusterqueues: there is no such key",
    ),
    ("          cohort: all", "          cohorts: all", "did you mean cohort?"),
    ("        provider: existing", "        providers: existing", "did you mean provider?"),
    ("    tenants:", "    tenant:", "did you mean tenants?"),
    ("        dataScientists:", "        datascientists:", "did you mean dataScientists?"),
    ("      image: registry", "      imaeg: registry", "did you mean image?"),
    ("        resources: {nv", "        resource: {nv", "did you mean resources?"),
    ("      replicas: 2\n    queues:", "      replica: 2\n    queues:", "did you mean replicas?"),
    ("        nodes: 16", "        node: 16", "did you mean nodes?"),
    # Values
    (
        "      enabled: true",
        '      enabled: "yes"',
        f"{PLATFORM}.kueue.enabled: must be true or false, without ",
    ),
    (
        "      enabled: true",
        "      enabled: yes",
        f"{PLATFORM}.kueue.enabled: must be true or false, without ",
    ),
    (
        "      enabled: true",
        "      enabled: 1",
        f"{PLATFORM}.kueue.enabled: must be true or false, without q",
    ),
    (
        "      enabled: true",
        "      enabled: [true]",
        f"{PLATFORM}.kueue.enabled: must be true or false, witho",
    ),
    ('cpu: {nominal: "64"}', "cpu: {nominal: 64 cores}", "must be a Kubernetes quantity such as 500m or 2Gi"),
    (
        "memory: {nominal: 256Gi}",
        "memory: {nominal: 256GB}",
        "must be a Kubernetes quantity such as 500m or ",
    ),
    (
        'machine: {cpu: "180", memory: 1900Gi}',
        'machine: {cpu: "180", memory: 1900gi}',
        "a Kubernetes quantity",
    ),
    ("low: {value: -100", "low: {value: -99999999999", "must be greater than or equal to -2147483648"),
    ("high: {value: 100", "high: {value: 99999999999", "must be less than or equal to 2147483647"),
    (
        "high: {value: 100",
        "high: {value: much",
        f"{PLATFORM}.queues.priorities.high.value: must be a valid integ",
    ),
    (
        "      replicas: 2\n    queues:",
        "      replicas: 7\n    queues:",
        "must be less than or equal to 3; is 7",
    ),
    (
        "      replicas: 2\n\n    runtimes:",
        "      replicas: 0\n\n    runtimes:",
        "must be greater than or equal to 1",
    ),
    (
        'version: "1.35"',
        "version: 1.35",
        f"{PLATFORM}.cluster.version: must be a valid string; is 1.35",
    ),
    ('version: "1.35"', 'version: "1.35.2"', f"{PLATFORM}.cluster.version: must be a minor version such as "),
    ("        provider: existing", "        provider: exists", "must be one of "),
    ("kind: Group, name: vision", "kind: Groups, name: vision", "must be one of "),
    ("count: 8}", "count: many}", f"{PLATFORM}.nodePools.h100.accelerator.count: must be a valid integer"),
    ("count: 8}", "count: -8}", f"{PLATFORM}.nodePools.h100.accelerator.count: must be greater than "),
    ("        nodes: 16", "        nodes: -1", f"{PLATFORM}.nodePools.h100.nodes: must be greater than"),
    (
        f"      image: registry.example.com/trainyard/operator:{VERSION}",
        "      image: operator",
        "must be an image with ",
    ),
    (
        f"      image: registry.example.com/trainyard/operator:{VERSION}\n",
        "",
        f"{PLATFORM}.operator.image: is required",
    ),
    ("        clusterQueue: vision\n", "", f"{PLATFORM}.tenants.vision.clusterQueue: is required"),
    (
        "    tenants:\n",
        "    tenants: []\n    x-tenants:\n",
        f"{PLATFORM}.tenants: must be a valid dictionary; is []",
    ),
    (
        "          nodeLabels: {kubernetes.io/os: linux}",
        "          nodeLabels: linux",
        "must be a valid dictionary",
    ),
    (
        "          resourceGroups:\n",
        "          resourceGroups: {}\n          x:\n",
        "resourceGroups: must be a valid",
    ),
    # What does not go together
    (
        "        clusterQueue: vision\n",
        "        clusterQueue: visoin\n",
        "there is no cluster queue 'visoin'; did ",
    ),
    (
        "{clusterQueue: speech, nodes: 4}",
        "{clusterQueue: speach, nodes: 4}",
        "there is no cluster queue 'speach'; ",
    ),
    ("          cohort: all", "          cohort: al", "al"),
    ("                - name: cpu", "                - name: cpus", "cpus"),
    ("      enabled: true\n", "      enabled: false\n", "kueue"),
    ("      vision:\n        clusterQueue", "      kube-system:\n        clusterQueue", "kube-system"),
    ("      vision:\n        clusterQueue", "      Vision:\n        clusterQueue", "Vision"),
]


@pytest.mark.parametrize(
    ("old", "new", "said"), MISTAKES, ids=[f"{new.strip()[:40]}" for _, new, _ in MISTAKES]
)
def test_a_mistake_is_one_sentence_with_its_line(tmp_path: Path, old: str, new: str, said: str) -> None:
    assert old in RIGHT
    text = RIGHT.replace(old, new, 1)
    found = answer(tmp_path, text)
    assert any(said in one for one in found), found
    assert all(one.startswith(f"{FILE}:") for one in found), found
    assert all("Tuple" not in one and "Traceback" not in one for one in found), found


@pytest.mark.parametrize(
    ("old", "new", "lines"),
    [
        (
            "        provider: existing",
            "        providers: existing",
            ["      h100:", "        providers: existing"],
        ),
        (
            'cpu: {nominal: "64"}',
            "cpu: {nominal: 64 cores}",
            ["                    cpu: {nominal: 64 cores}"],
        ),
        (
            "{clusterQueue: speech, nodes: 4}",
            "{clusterQueue: speach, nodes: 4}",
            ["{clusterQueue: speach, nod"],
        ),
        ("          cohort: all", "          cohort: all\n          cohort: all", ["          cohort: all"]),
        ("      enabled: true\n      replicas: 2", "      enabled: on\n      replicas: 9", ["on", "9"]),
        ("        nodeLabels: {", "        nodeLabels: {x: [1], ", ["        nodeLabels: {x: [1], "]),
    ],
)
def test_the_line_is_that_of_the_mistake(tmp_path: Path, old: str, new: str, lines: list[str]) -> None:
    assert old in RIGHT
    text = RIGHT.replace(old, new, 1)
    places = sorted(int(one.split(":")[1]) for one in answer(tmp_path, text))
    assert len(places) == len(lines)
    for place, part in zip(places, lines, strict=True):
        assert part in text.splitlines()[place - 1]


def test_what_is_no_yaml_is_said_with_line_and_column(tmp_path: Path) -> None:
    assert answer(tmp_path, RIGHT.replace("    kueue:", "\t kueue:", 1))[0].startswith(f"{FILE}:3")
    assert answer(tmp_path, "config: [") == [f"{FILE}:1:10: the text ends where a value should be"]
    assert answer(tmp_path, "") == [f"{FILE}:1: there is no key config with trainyard:platform in it"]


@pytest.mark.parametrize(
    ("value", "kind"),
    [("2026-11-31", "timestamp"), ("0x_", "int"), ('!!int ""', "int"), ("!!bool maybe", "bool")],
)
def test_a_date_or_a_number_that_is_none_is_said_with_its_place(
    tmp_path: Path, value: str, kind: str
) -> None:
    sentence = f"{FILE}:1:13: not a valid {kind}: quote it if it is a text"
    assert answer(tmp_path, f"config: {{a: {value}}}") == [sentence]


def test_a_key_that_is_there_twice_is_named_with_both_lines(tmp_path: Path) -> None:
    [said] = answer(tmp_path, RIGHT + "    kueue: {enabled: false}\n")
    line = RIGHT.splitlines().index("    kueue:") + 1
    assert said == f"{FILE}:{len(RIGHT.splitlines()) + 1}: the key kueue is already on line {line}"
