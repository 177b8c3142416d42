"""Runs Pulumi on a stack, with output that is easy to read.

Called by `preview` and `up`. Runs Pulumi, follows its events, queries the
cluster for the TrainJobs that a change reaches, and prints;
`trainyard_delivery.rollout` interprets the events. An `up` is a preview, then
an update that only looks at the cluster again if there is something to change
(docs/adr/0029), then, if asked for, the repair of `drift`.
"""

from __future__ import annotations

import dataclasses
import os
import sys
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, TextIO

from trainyard_api import places
from trainyard_api.errors import UserError
from trainyard_api.json_types import Json
from trainyard_api.printable import LONGEST, clean, printable
from trainyard_delivery import foreign, impact, pulumi_state, replacements
from trainyard_delivery.rollout import words
from trainyard_delivery.rollout.events import Op, Step, Violation
from trainyard_delivery.rollout.outcome import Outcome
from trainyard_kube.client import ApiError, Client
from trainyard_kube.credentials import Credentials, CredentialsError
from trainyard_platform.stack.settings import StackSettings

from ..cluster import (
    connection,
    existing,
    foreign_controllers,
    foreign_namespaces,
    moves,
    queued_jobs,
    runtime_trials,
    takeovers,
)
from ..cluster.workloads import look
from ..files import basis, outcomes, rendering, stackfile
from ..output import REFUSED
from . import drift, verify
from .rollout_output import Lasting, raise_if_lost
from .rollout_progress import Progress
from .rollout_pulumi import Echo, Plan, Teller, few_checkpoints, pulumi, target

_TOUCHING: Final = frozenset(
    {
        *("ClusterQueue", "Cohort", "LocalQueue", "ResourceFlavor", "WorkloadPriorityClass"),
        *("ClusterTrainingRuntime", impact.NODE_POOL),
    }
)
"""Kinds of the stack's objects that TrainJobs depend on."""
_TRIES: Final = 3
_PAUSE: Final = 10.0
"""Seconds before an update is tried again that a webhook did not answer."""


def run(
    stack: str,
    *,
    change: bool,
    expect_no_changes: bool = False,
    repair: bool = False,
    keep: Sequence[str] = (),
    replace: Sequence[str] = (),
    verbose: bool = False,
    kubeconfig: str | None = None,
    context: str | None = None,
    outcome: Path | None = None,
    out: TextIO | None = None,
    err: TextIO | None = None,
) -> int:
    """Print how a stack's objects would change, and with `change` change them; returns Pulumi's exit code.

    With `repair`, then undo what others have added to its objects, except to those that `keep` names.
    With `verbose`, Pulumi prints its own output, but for the preview before a change.
    A runtime that the rules refuse, a tenant whose namespace belongs to another tool, jobs that their queues
    would no longer hold and, in a preview, a runtime that the cluster would refuse go to `err` with exit
    code 1, before Pulumi is run.
    So does what would be recreated and holds jobs or quotas, unless `replace` names it; a
    preview only says it. So does a stack that was rolled out to another cluster than its file names now,
    unless `replace` names the fields that have changed: then the state first gets these.
    So does, after the preview, an object that has stayed in the cluster and that the stack cannot take over,
    a controller that the cluster has from somebody else, unless `replace` names it, and before the update a
    change of the site's files, of Pulumi's state or of the cluster since the preview.
    What a preview comes to is also written to the file `outcome`, as JSON, however it ends.

    Raises:
        UserError: The stack file is wrong, Pulumi cannot be run or cannot read its state, the stack lacks an
            object that `keep` names, or `outcome` cannot be written.
    """
    lasting = Lasting(out or sys.stdout), Lasting(err or sys.stderr)
    out, err = (stream.text for stream in lasting)
    _write(outcome, stack, outcomes.UNFINISHED)
    options = _Options(
        stack,
        change,
        expect_no_changes,
        frozenset(" ".join(replace).split()),
        keep if repair else (),
        verbose,
        kubeconfig,
        context,
    )
    try:
        code, result = _run(options, *lasting)
    except UserError as error:
        _write(outcome, stack, Outcome(errors=(_with_its_end(str(error)),)))
        raise
    _write(outcome, stack, result)
    if not change:
        raise_if_lost(*lasting)
    if code or not repair:
        return code
    return drift.run(
        stack,
        repair=True,
        keep=keep,
        kubeconfig=kubeconfig,
        context=context,
        state=lambda: rendering.rolled_out(stack),
        out=out,
        err=err,
    )


@dataclass(frozen=True, slots=True)
class _Options:
    """The options of `run` that decide what Pulumi does."""

    stack: str
    change: bool
    expect_no_changes: bool
    allowed: Collection[str]
    """Names of what may be recreated, and of fields of the cluster that may have changed."""
    keep: Sequence[str]
    """Names of what the repair leaves as it is."""
    verbose: bool
    kubeconfig: str | None
    context: str | None

    @property
    def judged(self) -> Sequence[str]:
        """Pulumi's options for who judges the changes."""
        if self.expect_no_changes:
            return ["--expect-no-changes"]
        # Policies check what git says; what the cluster already has passed them before.
        return ["--policy-pack", os.path.relpath(places.site().policies)]

    def connect(self, settings: StackSettings) -> Credentials:
        """How to reach the stack's cluster. Raises as `target`."""
        return target(self.stack, settings.cluster, self.kubeconfig, self.context)

    def connect_again(self) -> Credentials:
        """The same, after it has read the stack file again."""
        return self.connect(stackfile.read_as_pulumi(self.stack))


@dataclass(slots=True)
class _Known:
    """What a preview goes by, read once: before the update, `_changed` looks whether it is still so."""

    settings: StackSettings
    connect: connection.Connect
    """Reads the kubeconfig at each call: a login may end while a preview runs for minutes."""
    state: Json = field(default_factory=lambda: {"deployment": {}})
    """Pulumi's, which is read unless the rules refuse the stack."""


def _run(options: _Options, out: Lasting, err: Lasting) -> tuple[int, Outcome]:
    """Preview, and change the objects if the options say so.

    Returns the exit code, and the result of the preview.
    """
    stack = options.stack
    # Before anything that judges the files.
    files = basis.files(stack) if options.change else None
    settings = stackfile.read_as_pulumi(stack)
    known = _Known(settings, partial(options.connect, settings))
    to = _to(known)
    place, refused = _refused(options, known, err.text)
    if refused:
        print(*refused, sep="\n", file=err.text)
        return REFUSED, Outcome(refusals=tuple(refused))
    refusals: Sequence[str] = ()
    with Progress(err.text) as progress:
        teller = Teller(stack, out.text, progress, partial(_plan, known))
        echo = Echo(out.text, err.text) if options.verbose else None
        its = {**place.variables, **({"KUBECONFIG": options.kubeconfig} if options.kubeconfig else {})}
        code = 0
        if (move := place.move) is not None:
            # Alone and without a refresh: the next steps go by what it leaves in the state.
            teller.begin_move(move.written)
            follow = ["up", "--target", move.provider, "--yes", "--skip-preview", *options.judged]
            code = pulumi(follow, stack, echo or teller, its)
            teller.end_move(succeeded=code == 0)
            if code == 0:
                known.state = rendering.rolled_out(stack)
        before = None if files is None else basis.Basis(files, pulumi_state.resources(known.state))
        if code == 0:
            teller.begin(f"Reading the cluster and what {stack} asks for")
        preview = ["preview", "--refresh", *options.judged]
        if code == 0 and echo is not None and not options.change:
            code = _echoed(preview, stack, teller, its, echo)
        elif code == 0:
            code = pulumi(preview, stack, teller, its)
        if code == 0:
            drift.named(options.keep, words.refs_after(teller.steps))
            stuck = _stuck(teller.steps, known, options, err.text)
            recreated = replacements.not_allowed(_with_left(teller.steps, known), options.allowed)
            code, refusals = _conflicts(recreated, stuck, err.text, change=options.change)
        if code == 0 and before is not None:
            raise_if_lost(out, err)
            code = _changed(before, place, options, err.text)
        if code == 0 and before is not None:
            teller.begin(f"Rolling out {stack}{to}")
            refresh = ["--refresh"] if teller.changing else []
            update = ["up", *refresh, "--yes", "--skip-preview", *options.judged]
            its |= few_checkpoints(settings)
            # The state of the first try is its own.
            only_files = before._replace(resources=None)
            changed = partial(_changed, only_files, place, options, err.text)
            code = _update(update, stack, teller, its, echo, changed=changed)
    return code, _outcome(teller, code, refusals)


def _refused(options: _Options, known: _Known, err: TextIO) -> tuple[moves.Place, list[str]]:
    """Where the stack is rolled out to, and why Pulumi is not run."""
    # In a second, and without the cluster: the policy pack says it after minutes.
    refused = [] if options.expect_no_changes else verify.refusals(options.stack, known.settings)
    place = moves.Place()
    if not refused:
        known.state = rendering.rolled_out(options.stack)
        place = moves.found(known.state, known.settings.cluster, known.connect, options.kubeconfig)
    if place.move is not None and not (options.change and place.move.allowed(options.allowed)):
        refused = [str(place.move)]
    elif not refused:
        # An `up` may have to restore the webhook that judges runtimes.
        judges = not (options.change or options.expect_no_changes)
        refused = _refusals(known, err, place.unseen, runtimes=judges)
    return place, [clean(sentence) for sentence in refused]


def _echoed(
    command: Sequence[str], stack: str, teller: Teller, variables: Mapping[str, str], echo: Echo
) -> int:
    """A preview of which Pulumi prints its own output; the teller then knows its steps."""
    with TemporaryDirectory() as folder:
        log = Path(folder) / "events"
        # Pulumi has this option only together with those that its own developers need.
        debugging = {**variables, "PULUMI_DEBUG_COMMANDS": "true"}
        code = pulumi([*command, "--event-log", str(log)], stack, echo, debugging)
        if code == 0 and log.exists():
            for line in log.read_text(encoding="utf-8").splitlines():
                teller.learn(line)
        elif code == 0:
            echo.warn("Not checked: what would be recreated or taken over. Run it without --verbose as well")
    return code


def _changed(before: basis.Basis, place: moves.Place, options: _Options, err: TextIO) -> int:
    """Print what has changed since the preview, the cluster included; returns the exit code."""
    stack = options.stack
    compares = before.resources is not None
    resources = pulumi_state.resources(rendering.rolled_out(stack)) if compares else None
    now = basis.Basis(basis.files(stack), resources)
    changes = [*basis.refusals(before, now, stack)] or moves.refusals(place, options.connect_again, "up")
    refused = list(map(clean, changes))
    err.writelines(f"{sentence}\n" for sentence in refused)
    return REFUSED if refused else 0


def _update(
    command: Sequence[str],
    stack: str,
    teller: Teller,
    variables: Mapping[str, str],
    echo: Echo | None,
    *,
    changed: Callable[[], int],
) -> int:
    """Change the stack's objects; again if a webhook did not answer, because its controller restarts.

    And if nothing has `changed` since the preview, which prints it otherwise.
    """
    code = pulumi(command, stack, echo or teller, variables)
    for _ in range(1, _TRIES):
        if not (code and teller.may_try_again):
            break
        teller.begin(f"A webhook did not answer. Trying again in {_PAUSE:.0f} s")
        time.sleep(_PAUSE)
        if changed():
            break
        teller.try_again()
        code = pulumi(command, stack, teller, variables)
    return code


def _write(file: Path | None, stack: str, outcome: Outcome) -> None:
    """Write what a preview comes to, if there is a file for it."""
    if file is not None:
        outcomes.write(file, stack, outcome)


def _with_its_end(text: str) -> str:
    """As `clean`, but of a long text also the end, where the way out stands after the output of Pulumi."""
    line, gap = printable(text).rstrip(), " ... "
    half = (LONGEST - len(gap)) // 2
    return line if len(line) <= LONGEST else f"{line[:half]}{gap}{line[-half:]}"


def _conflicts(
    recreated: Sequence[str], stuck: Sequence[str], err: TextIO, *, change: bool
) -> tuple[int, Sequence[str]]:
    """Print what must not be recreated and what cannot be taken over; returns the exit code and that."""
    sentences = [clean(replacements.refusal(recreated)), *stuck] if recreated else stuck
    err.writelines(f"{sentence}\n" for sentence in sentences)
    return REFUSED if stuck or (recreated and change) else 0, sentences


def _outcome(teller: Teller, code: int, refusals: Sequence[str]) -> Outcome:
    """The result of a preview, even if Pulumi has failed without an event."""
    outcome = teller.outcome
    if refusals:
        return dataclasses.replace(outcome, refusals=(*outcome.refusals, *refusals))
    if code and outcome == Outcome():
        return Outcome(errors=(f"pulumi ended with exit code {code}; its output says why",))
    return outcome


def _to(known: _Known) -> str:
    try:
        return f" to {clean(known.connect().server)}"
    except CredentialsError:
        return ""


def _refusals(known: _Known, err: TextIO, unseen: str, *, runtimes: bool) -> list[str]:
    """Why Pulumi is not run, as the cluster is; what cannot be seen goes to `err`.

    `unseen`: why it cannot be seen which cluster it is.

    Raises:
        PlatformError: A runtime is invalid.
    """
    looks = [
        ("who owns the tenants' namespaces", foreign_namespaces.refusals),
        ("which jobs are in queues", queued_jobs.refusals),
    ]
    if runtimes:
        looks.append(("whether the cluster would accept the runtimes", runtime_trials.refusals))
    refused: list[str] = []
    if unseen:
        print(clean(f"{moves.UNSEEN}: {unseen}"), file=err)
    for question, refusals in looks:
        try:
            refused += refusals(known.settings, known.connect)
        except (CredentialsError, ApiError) as error:
            print(clean(f"Could not see {question}: {error}"), file=err)
    return refused


def _plan(known: _Known, steps: Sequence[Step], violations: Sequence[Violation]) -> Plan:
    steps, unlisted = _taken_over(_with_left(steps, known), known)
    effects, unseen = _effects(steps, known)
    lines = [
        *words.details(steps, effects),
        *words.violations(violations, steps),
        *(f"Could not see {what}: {why}" for what, why in sorted({**unseen, **unlisted}.items())),
    ]
    return Plan(lines, words.summary(steps))


def _with_left(steps: Sequence[Step], known: _Known) -> Sequence[Step]:
    """The steps, with what stays in the cluster reported as such."""
    return list(words.left(steps, pulumi_state.deleted_with(known.state)))


def _taken_over(steps: Sequence[Step], known: _Known) -> tuple[Sequence[Step], Mapping[str, str]]:
    """The steps with what is taken over; and what could not be seen, with the reason."""
    candidates = words.may_exist(steps) | words.controllers(steps)
    if not candidates:
        return steps, {}
    try:
        there = connection.ask(known.connect(), "preview", lambda client: existing.look(client, candidates))
    except CredentialsError as error:
        return steps, {"which objects exist already": str(error)}
    return list(words.taken_over(steps, there.refs)), there.unseen


def _stuck(steps: Sequence[Step], known: _Known, options: _Options, err: TextIO) -> list[str]:
    """Why objects of the cluster cannot be taken over; those of others are, if they are allowed.

    An `up` is also refused where nobody can see whose controllers it would overwrite. A preview only says so.
    """
    candidates = words.may_exist(steps)
    manifests = [step.after for step in steps if step.op is Op.CREATE and step.ref in candidates]
    controllers = [ref for ref in words.controllers(steps) if ref.key not in options.allowed]
    replaced = foreign.replaced(steps, known.state, options.stack)
    refused = [sentence for ref, sentence in replaced.items() if ref.key not in options.allowed]
    if not manifests and not controllers:
        return [clean(sentence) for sentence in refused]

    async def refusals(client: Client) -> list[str]:
        return [
            *await foreign_controllers.refusals(client, controllers, options.stack),
            *await takeovers.refusals(client, manifests),
        ]

    try:
        refused += connection.ask(known.connect(), "preview", refusals)
    except (CredentialsError, ApiError) as error:
        if options.change and controllers:
            refused.append(foreign.unseen(controllers, str(error)))
        else:
            print(clean(f"Could not see what the roll-out would overwrite: {error}"), file=err)
    return [clean(sentence) for sentence in refused]


def _effects(
    steps: Sequence[Step], known: _Known
) -> tuple[Mapping[str, Sequence[impact.Touched]], Mapping[str, str]]:
    changes = {step.urn: change for step in steps if (change := words.change(step)) is not None}
    if not any(change.ref.kind in _TOUCHING for change in changes.values()):
        return {}, {}

    try:
        workloads = connection.ask(known.connect(), "preview", lambda client: look(client, pools=False))
    except (CredentialsError, ApiError) as error:
        return {}, {"the TrainJobs": str(error)}
    after = words.after(steps)
    effects = {urn: impact.touched(change, workloads.jobs, after) for urn, change in changes.items()}
    return effects, workloads.unseen
