"""TrainJobs and runtimes as large and as nasty as admission allows, while honest ones go through.

The operator runs as a cluster has it: its webhooks are asked, its Lease is kept
with the default times, its rights and its memory limit are the platform's. It
notes for how long it held its threads (`held`).

What is hostile is sent to the API server, which asks some of the webhooks, and
to each path of the webhooks directly, as whoever reaches their port can do it.
"""

import json
import os
import statistics
import sys
import threading
import time
from base64 import b64decode
from collections import Counter, deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import Any

import pytest
import urllib3
import yaml
from urllib3.exceptions import HTTPError

from benchmarks import audit, controllers, plane
from tests.support import live
from tests.support.live import JOBSET, TRAINER, done
from trainyard_api import names
from trainyard_api.configuration import LeaderElection
from trainyard_platform.stack import operator_memory
from trainyard_policies import rules
from trainyard_policies.rule import Level
from trainyard_policies.settings import Levels, Policies
from trainyard_policies.subject import Subject
from trainyard_sandbox.supervisor import Plan

from . import lives, nasty, rights
from .nasty import ALL, OF_RUNTIMES, OF_TRAINJOBS
from .scene import Direct

SEED = int(os.environ.get("TRAINYARD_FUZZ_SEED", "1"))
FIRST = int(os.environ.get("TRAINYARD_FUZZ_FIRST", "0"))
"""The number of the first case: a part of a soak continues where another run ended."""
PARTS = 4
"""A soak takes hours. Each of its parts is a test with a verdict of its own."""
HOSTILE, HONEST = "fuzz-hostile", "fuzz-honest"
PAUSE = 0.5
"""Seconds between two honest TrainJobs."""
PATIENCE = 120.0
"""Seconds in which any TrainJob is answered."""
AT_ONCE = 20
"""As many TrainingRuntimes as a tenant's quota lets it have."""
LEAST_ROOM = 512
"""Bytes; what is rejected even so is rejected for what it is, not for its size."""
COMPACTED = 30.0
"""Seconds between two compactions of etcd, whose quota is 2 GB, history included."""
MEMORY = operator_memory.LEAST * operator_memory.MIB
LEASE = LeaderElection().lease_duration
SLOWEST = 1.0
"""Seconds from the request to the JobSet, of 99 of 100 honest TrainJobs."""
TRIES = 3
"""How often the API server is asked that answers that it was too slow; of webhooks it says so by 500."""
LOOK, HELD = 0.2, 0.25
"""Seconds of CPU: of a look at any TrainJob, and for which the loop or another thread may be held."""


@dataclass
class Arena:
    """A control plane, the operator that its API server asks, and when which JobSet was seen."""

    api: Direct
    controller: controllers.Controller
    etcd: "Etcd"
    held: Path
    """Where the operator says for how long it held its loop."""
    audit_log: Path
    anybody: urllib3.PoolManager
    """Who reaches the webhooks' port, and nothing else."""
    next_case: int = FIRST
    """The number of the next hostile case: no test tries one twice."""
    honest: Iterator[int] = field(default_factory=count)
    """Numbers of the honest TrainJobs."""
    seen: set[str] = field(default_factory=set)
    """Names of the JobSets that a watch has shown."""
    changed: threading.Condition = field(default_factory=threading.Condition)

    def follow(self) -> None:
        """Note which JobSets come, until the control plane goes."""
        path = f"/apis/{JOBSET}/jobsets?watch=true&resourceVersion=0"
        while self.controller.running:
            with suppress(HTTPError), self.api.as_tables().stream(path) as lines:
                for line in lines:
                    event = json.loads(line)
                    if event["type"] == "ADDED":
                        self._take([row["cells"][0] for row in event["object"]["rows"]])

    def _take(self, found: list[Any]) -> None:
        with self.changed:
            self.seen.update(found)
            self.changed.notify_all()

    def wait(self, name: str, seconds: float) -> bool:
        """Whether the JobSet is seen in time."""
        with self.changed:
            return self.changed.wait_for(lambda: name in self.seen, seconds)

    def latencies(self) -> list[float]:
        """Of honest TrainJobs: seconds from the request to the JobSet, by the API server's own clock."""
        with self.audit_log.open("rb") as log:
            lines = [line for line in log if HONEST.encode() in line]
        received = {
            f"{call.namespace}/{call.name}": call.received
            for call in audit.parse(lines, audit.USER)
            if (call.verb, call.resource) == ("create", "trainjobs")
        }
        made = audit.creation_times(audit.parse(lines, rights.USER), "jobsets")
        return [at - received[name] for name, at in made.items() if name in received]

    def reason(self, name: str) -> Any:
        """Why a hostile TrainJob is blocked, or has failed; None if it is neither."""
        job = self.api.get(TRAINER, "TrainJob", name, HOSTILE) or {}
        conditions = (job.get("status") or {}).get("conditions") or []
        return next((c["reason"] for c in conditions if c["type"] in ("Blocked", "Failed")), None)


@dataclass
class Etcd:
    """The sandbox's etcd, which forgets what was when it is told to."""

    pool: Any
    url: str

    @classmethod
    def of(cls, sandbox: Any) -> "Etcd":
        pki = sandbox.instance.pki
        (argv,) = (c.argv for c in Plan.read(sandbox.instance.plan_file).components if c.name == "etcd")
        (url,) = (word.partition("=")[2] for word in argv if word.startswith("--listen-client-urls="))
        pool = urllib3.PoolManager(
            ca_certs=str(pki / "etcd-ca.crt"),
            cert_file=str(pki / "etcd-client.crt"),
            key_file=str(pki / "etcd-client.key"),
        )
        return cls(pool, url)

    def compact(self) -> None:
        """Forget all that has been overwritten or deleted."""
        at = self._post("/v3/kv/range", {"key": "AA=="})["header"]["revision"]
        self._post("/v3/kv/compaction", {"revision": at})

    def _post(self, path: str, body: Any) -> Any:
        answer = self.pool.request("POST", self.url + path, json=body, timeout=60)
        assert answer.status == 200, answer.data
        return answer.json()


@dataclass
class Background:
    """What goes on beside the hostile TrainJobs, and what was measured."""

    arena: Arena
    ages: list[float] = field(default_factory=list)
    """How long ago the Lease was renewed, at each look."""
    holders: set[Any] = field(default_factory=set)
    """The holder and the number of transitions, at each look."""
    over: threading.Event = field(default_factory=threading.Event)

    def guarded(self, work: Callable[..., None], *arguments: Any) -> None:
        """Work; if that fails, all is over."""
        try:
            work(*arguments)
        except BaseException:
            self.over.set()
            raise

    def honest(self) -> None:
        """Honest users create TrainJobs, each without waiting for the others."""
        with ThreadPoolExecutor(32) as users:
            requests: list[Future[None]] = []
            while not self.over.wait(PAUSE):
                requests.append(users.submit(self.guarded, self._create, next(self.arena.honest)))
            for request in requests:
                request.result()

    def _create(self, number: int) -> None:
        name = f"honest-{number}"
        done(self.arena.api.create(manifest("TrainJob", name, HONEST, **referring("honest"))))
        assert self.arena.wait(name, PATIENCE), f"{name} has no JobSet after {PATIENCE:.0f} s"
        done(self.arena.api.delete(TRAINER, "TrainJob", name, HONEST))

    def lease(self) -> None:
        """Look at the Lease again and again."""
        path = f"/apis/coordination.k8s.io/v1/namespaces/{rights.NAMESPACE}/leases/{rights.NAME}"
        while not self.over.wait(PAUSE):
            spec = done(self.arena.api.call("GET", path))["spec"]
            age = datetime.now(UTC) - datetime.fromisoformat(spec["renewTime"])
            self.ages.append(age.total_seconds())
            self.holders.add((spec["holderIdentity"], spec.get("leaseTransitions", 0)))

    def compaction(self) -> None:
        """Keep etcd small."""
        while not self.over.wait(COMPACTED):
            self.arena.etcd.compact()


def manifest(kind: str, name: str, namespace: str, **spec: Any) -> Any:
    metadata = {**spec.pop("metadata", {}), "name": name, "namespace": namespace}
    return {"apiVersion": TRAINER, "kind": kind, "metadata": metadata, "spec": spec}


def referring(runtime: str) -> dict[str, Any]:
    return {"runtimeRef": {"name": runtime, "kind": "TrainingRuntime"}}


def send_directly(arena: Arena, case: nasty.Case, answers: Counter[Any]) -> None:
    """Send a runtime and its TrainJob to one path of the webhooks each, another one for each case of a shape.

    They are not made smaller until admission allows them: the door is asked too.
    """
    turn = case.number // len(nasty.SHAPES)
    runtime, job = case.pair()
    for paths, spec in ((OF_RUNTIMES, runtime), (OF_TRAINJOBS, {**referring("honest"), **job})):
        path = paths[turn % len(paths)]
        [kind] = (
            kind for kind in (*names.RUNTIME_KINDS, names.TRAINJOB) if path.endswith(f"-{kind.lower()}")
        )
        sent = {
            "uid": "fuzz",
            "kind": {"kind": kind},
            "operation": "CREATE",
            "namespace": HONEST,
            "name": "fuzz",
            "object": manifest(kind, "fuzz", HONEST, **spec),
        }
        review = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": sent}
        answer = arena.anybody.request("POST", arena.controller.webhook_url + path, json=review, timeout=60)
        # 503 and 429: too much at a time. Never 504: that is work that takes too long.
        assert answer.status in (200, 400, 413, 429, 503), (case, path, answer.status, answer.data[:1000])
        answers[path, answer.status] += 1


def in_force(file: Path) -> Path:
    """The policies of the webhooks, in a file: each rule is asked, and none refuses, so that all is tried."""
    levels = {
        subject: {rule.id: Level.ADVISORY for rule in rules.OF_WORKLOADS if subject in rule.levels}
        for subject in (Subject.RUNTIMES, Subject.TRAINJOBS)
    }
    policies = Policies(
        levels=Levels(runtimes=levels[Subject.RUNTIMES], train_jobs=levels[Subject.TRAINJOBS])
    )
    file.write_text(yaml.safe_dump(policies.model_dump(mode="json", by_alias=True)))
    return file


def admitted(arena: Arena, case: nasty.Case) -> Any:
    """The answers to the runtime and to the TrainJob, as large as admission allows; None: it allows none."""
    name = f"hostile-{case.number}"
    tries = TRIES
    while case.room >= LEAST_ROOM:
        runtime, job = case.pair()
        made = created(arena, manifest("TrainingRuntime", name, HOSTILE, **runtime))
        answers = [made]
        if made.code == 201:
            answers.append(created(arena, manifest("TrainJob", name, HOSTILE, **referring(name), **job)))
        if answers[-1].code == 504 and (tries := tries - 1):
            # An API server without a core of its own. What has come of it nobody knows.
            for kind in ("TrainJob", "TrainingRuntime"):
                arena.api.delete(TRAINER, kind, name, HOSTILE)
            continue
        for answer in answers:
            refused = answer.code in (400, 403, 413, 422) or "request is too large" in answer.message
            assert answer.code == 201 or refused, (case, answer.code, answer.message[:1000])
        if answers[-1].code == 201:
            return [answer.body for answer in answers]
        if made.code == 201:
            done(arena.api.delete(TRAINER, "TrainingRuntime", name, HOSTILE))
        case = case.smaller
    return None


def created(arena: Arena, manifest: Any) -> Any:
    """The answer, without a warning for each unknown field: Python's client takes 100 headers at most."""
    path = live.path_of(TRAINER, manifest["kind"], HOSTILE)
    return arena.api.call("POST", f"{path}?fieldValidation=Ignore", manifest)


def answered(arena: Arena, name: str) -> str:
    """What has become of it: a JobSet, or why there is none."""
    end = time.monotonic() + PATIENCE
    pause = 0.5
    while not (told := arena.wait(name, pause) and "JobSet") and not (told := arena.reason(name)):
        assert time.monotonic() < end, f"{name} is not answered within {PATIENCE:.0f} s"
        pause = min(4.0, 2 * pause)
    return str(told)


def remove(arena: Arena, runtime: Any, job: Any) -> None:
    """Its tenant needs the room for the next."""
    name = job["metadata"]["name"]
    if job["spec"].get("suspend"):
        done(arena.api.merge(TRAINER, "TrainJob", name, {"spec": {"suspend": False}}, namespace=HOSTILE))
    done(arena.api.delete(TRAINER, "TrainJob", name, HOSTILE))
    done(arena.api.delete(TRAINER, "TrainingRuntime", name, HOSTILE))
    # The operator itself collects it a day later.
    revisions = live.path_of("apps/v1", "ControllerRevision", rights.NAMESPACE)
    chosen = f"labelSelector={names.RUNTIME_UID_LABEL}%3D{runtime['metadata']['uid']}"
    done(arena.api.call("DELETE", f"{revisions}?{chosen}"))


@pytest.fixture(scope="module")
def arena(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Arena]:
    plane.build()
    folder = tmp_path_factory.mktemp("fuzz")
    with ExitStack() as stack:
        cluster = stack.enter_context(live.control_plane("fuzz"))
        admin = cluster.sandbox.instance.kubeconfig
        api = Direct(admin)
        for name in (rights.NAMESPACE, HOSTILE, HONEST):
            done(api.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}))
        kubeconfig = folder / "kubeconfig"
        kubeconfig.write_text(as_operator(admin, rights.grant(api)))
        held = folder / "held.json"
        program: list[Path | str] = [sys.executable, "-P", Path(__file__).with_name("held.py"), held]
        program += ["--webhook-policies", in_force(folder / "policies.yaml")]
        controller = controllers.ours(kubeconfig, folder, program=program)
        controller.start()
        stack.callback(controller.stop)
        live.install_webhooks(live.Side("fuzz", cluster, api, controller))
        done(api.create(manifest("TrainingRuntime", "honest", HONEST, **lives.PLAIN)))
        anybody = urllib3.PoolManager(ca_cert_data=authorities(api), retries=False)
        audit_log = cluster.sandbox.log_file("audit")
        found = Arena(api, controller, Etcd.of(cluster.sandbox), held, audit_log, anybody)
        threading.Thread(target=found.follow, name="JobSets", daemon=True).start()
        yield found


def authorities(api: Direct) -> str:
    """Whom the API server trusts when it asks the webhooks."""
    kind = "ValidatingWebhookConfiguration"
    configuration = api.get("admissionregistration.k8s.io/v1", kind, names.VALIDATING_WEBHOOKS)
    return b64decode(configuration["webhooks"][0]["clientConfig"]["caBundle"]).decode()


def as_operator(admin: Path, token: str) -> str:
    """A kubeconfig that leads to the same API server with a token."""
    document = yaml.safe_load(admin.read_text())
    for user in document["users"]:
        user["user"] = {"token": token}
    return yaml.safe_dump(document)


@pytest.mark.parametrize(
    ("wanted", "factor"),
    [
        # Beside other tests, on whatever machine.
        pytest.param(ALL // 40, 10, marks=pytest.mark.sandbox),
        *[
            pytest.param(ALL // PARTS, 1, marks=pytest.mark.soak, id=f"part {part} of {PARTS}")
            for part in range(1, PARTS + 1)
        ],
    ],
)
def test_what_is_hostile_costs_neither_the_lease_nor_honest_users_nor_the_memory_limit(
    arena: Arena, tried: Any, wanted: int, factor: int
) -> None:
    first = arena.next_case
    print(f"TRAINYARD_FUZZ_SEED={SEED} TRAINYARD_FUZZ_FIRST={first}")
    beside = Background(arena)
    outcomes: list[Any] = []
    directly: Counter[Any] = Counter()

    def hostile() -> None:
        there: deque[Any] = deque()
        while len(outcomes) < wanted and not beside.over.is_set():
            case = nasty.case(SEED, arena.next_case)
            arena.next_case += 1
            send_directly(arena, case, directly)
            if (objects := admitted(arena, case)) is None:
                continue
            outcomes.append((case.shape, answered(arena, objects[-1]["metadata"]["name"])))
            there.append(objects)
            if len(there) == AT_ONCE:
                remove(arena, *there.popleft())
        beside.over.set()
        for objects in there:
            remove(arena, *objects)

    # One hostile TrainJob after the other: it keeps the API server busy on a core, and honest ones need one.
    work = [hostile, beside.honest, beside.lease, beside.compaction]
    with ThreadPoolExecutor(len(work)) as pool:
        for one in [pool.submit(beside.guarded, function) for function in work]:
            one.result()
    latencies = arena.latencies()
    p99 = statistics.quantiles(latencies, n=100)[98]
    peak = arena.controller.peak
    held = json.loads(arena.held.read_text())
    print(*sorted(directly.items()), sep="\n")
    print(*sorted(Counter(outcomes).items()), f"refused: {arena.next_case - first - len(outcomes)}", sep="\n")
    tried(
        f"fuzz, seed {SEED}: p99 of {len(latencies)} honest TrainJobs {p99:.2f} s, Lease renewed at "
        f"most {max(beside.ages):.1f} s ago, at most {peak:.0f} MiB, {arena.controller.cpu:.0f} s of CPU, "
        f"the longest look {1000 * held['look']:.0f} ms, the longest step {1000 * held['step']:.0f} ms, "
        f"the longest call beside the loop {1000 * held['aside']:.0f} ms",
        wanted,
        ALL,
    )
    assert {shape for shape, _ in outcomes} == set(nasty.SHAPES), "admission allows some of each"
    assert {path for path, code in directly if code == 200} == {*OF_TRAINJOBS, *OF_RUNTIMES}
    assert arena.controller.running
    assert "Traceback" not in arena.controller.log.read_text()
    assert len(beside.holders) == 1, "the Lease was lost"
    assert max(beside.ages) < LEASE
    assert p99 < SLOWEST * factor
    assert held["look"] < LOOK * factor
    assert held["step"] < HELD * factor
    assert held["aside"] < HELD * factor
    assert peak * 2**20 < MEMORY
