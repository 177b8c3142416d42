"""`trainyard preview` and `trainyard up`: run Pulumi on a stack, with output that is easy to read.

Called by `main`, which adds both to the application. Runs Pulumi, follows its
events, queries the cluster for the TrainJobs that a change reaches, and prints;
`trainyard_platform.rollout` interprets the events. An `up` is a preview, then
an update that only looks at the cluster again if there is something to change
(docs/adr/0029), then, if asked for, the repair of `drift`.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Annotated, Final, TextIO

import typer

from trainyard_api.pools import NODE_GROUPS
from trainyard_assist.explain.text import clean
from trainyard_operator.kube.client import ApiError
from trainyard_operator.kube.credentials import CredentialsError
from trainyard_platform import impact, pulumi_state, replacements
from trainyard_platform.errors import PlatformError
from trainyard_platform.rollout import events, words
from trainyard_platform.rollout.events import Op, Severity, Step

from ..answers import CANNOT_ASK
from ..cluster import connection, foreign_namespaces, moves, queued_jobs, runtime_trials
from ..cluster.workloads import Seen, look
from ..files import rendering, stackfile
from ..options import Context, Keep, Kubeconfig, Replace
from . import drift
from .rollout_progress import Progress

POLICIES: Final = "policies"
REFUSED: Final = 1
_TOLD_BY_THE_PROGRAM: Final = "pulumi:pulumi:Stack"
_TOUCHING: Final = frozenset(
    {"ClusterTrainingRuntime", "ClusterQueue", "LocalQueue", "ResourceFlavor", "WorkloadPriorityClass"}
)
"""Kinds of the stack's objects that TrainJobs depend on."""


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
    out: TextIO | None = None,
    err: TextIO | None = None,
) -> int:
    """Print how a stack's objects would change, and with `change` change them; returns Pulumi's exit code.

    With `repair`, then undo what others have added to its objects, except to those that `keep` names.
    With `verbose`, Pulumi prints its own output, but for the preview before a change. If it cannot run,
    the reason goes to `err`, with exit code 2. A tenant whose namespace belongs to another tool, jobs that
    their queues would no longer hold and, in a preview, a runtime that the cluster would refuse go to `err`
    with exit code 1. So does what would be replaced and holds jobs or quotas, unless `replace` names it; a
    preview only says it. So does a stack that was rolled out to another cluster than its file names now,
    unless `replace` names the fields that have changed: then the state first gets the new cluster.
    """
    out, err = out or sys.stdout, err or sys.stderr
    allowed = " ".join(replace).split()
    try:
        cluster = _cluster(stack, kubeconfig, context)
        move = moves.found(stack, kubeconfig, context)
    except PlatformError as error:
        print(error, file=err)
        return CANNOT_ASK
    if move is not None and not (change and move.allowed(allowed)):
        print(clean(str(move)), file=err)
        return REFUSED
    looks = [
        ("who owns the tenants' namespaces", foreign_namespaces.refusals),
        ("which jobs are in queues", queued_jobs.refusals),
    ]
    if not (change or expect_no_changes):  # an `up` may have to restore the webhook that judges them
        looks.append(("whether the cluster would accept the runtimes", runtime_trials.refusals))
    refused: list[str] = []
    for what, look_for in looks:
        try:
            refused += look_for(stack, kubeconfig, context)
        except PlatformError as error:
            print(error, file=err)
            return CANNOT_ASK
        except (CredentialsError, ApiError) as error:
            print(clean(f"Could not see {what}: {error}"), file=err)
    if refused:
        print(*map(clean, refused), sep="\n", file=err)
        return REFUSED
    # Policies check what git says; what the cluster already has passed them before.
    judged = ["--expect-no-changes"] if expect_no_changes else ["--policy-pack", POLICIES]
    try:
        with Progress(err) as progress:
            teller = Teller(
                stack, out, progress, lambda steps: _effects(steps, stack, kubeconfig, context), _deleted_with
            )
            its = {"KUBECONFIG": kubeconfig} if kubeconfig else {}
            preview = None if verbose and not change else teller
            code = 0
            if (
                move is not None
            ):  # alone and without a refresh: the next steps go by what it leaves in the state
                target = ["up", "--target", move.provider, "--yes", "--skip-preview"]
                code = _pulumi([*target, *judged], stack, None if verbose else teller, its)
            code = code or _pulumi(["preview", "--refresh", *judged], stack, preview, its)
            if code == 0 and (replaced := teller.replaced(allowed)):
                print(clean(replacements.refusal(replaced)), file=err)
                code = REFUSED if change else code
            if code == 0 and change:
                teller.begin_update(cluster)
                refresh = ["--refresh"] if teller.changing else []
                update = ["up", *refresh, "--yes", "--skip-preview", *judged]
                its |= _few_checkpoints(stack)
                code = _pulumi(update, stack, None if verbose else teller, its)
    except OSError as error:
        print(f"pulumi cannot be run: {error.strerror}", file=err)
        return CANNOT_ASK
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


def _cluster(stack: str, kubeconfig: str | None, context: str | None) -> str:
    """The address of the stack's cluster, for people; empty if only Pulumi can tell.

    Raises:
        PlatformError: The options name another cluster than the one that Pulumi goes by.
    """
    cluster = stackfile.read_as_pulumi(stack).cluster
    connection.choose(cluster, kubeconfig, context)
    if context and cluster.context is None:
        raise PlatformError(
            f"--context {context}: the stack {stack} has no cluster.context, so Pulumi goes by the current"
            " one of the kubeconfig. Write it into the stack file, or run: "
            f"kubectl config use-context {context}"
        )
    try:
        return clean(connection.of_stack(cluster, kubeconfig, context).server)
    except CredentialsError:
        return ""


def _pulumi(arguments: Sequence[str], stack: str, teller: Teller | None, variables: Mapping[str, str]) -> int:
    """Run Pulumi on a stack; returns its exit code. Without a teller, it prints its own output."""
    command = ["pulumi", *arguments, "--stack", stack, "--non-interactive", "--color", "never"]
    environment = {
        **os.environ,
        **variables,
        # Git takes precedence over whoever wrote a field that a stack sets: a person, or a killed `up`.
        "PULUMI_K8S_ENABLE_PATCH_FORCE": "true",
        "PULUMI_ENABLE_STREAMING_JSON_PREVIEW": "true",
    }
    if teller is None:
        return subprocess.call([*command, "--suppress-progress"], env=environment)
    with _started([*command, "--json"], environment) as (process, lines):
        for line in lines:
            teller.hear(line)
    return process.returncode


def _few_checkpoints(stack: str) -> Mapping[str, str]:
    """Write the state once, at the end, unless a kill could lose a node group that costs money.

    An object of the cluster that a killed `up` has made is taken over by the next.
    """
    pools = stackfile.read_as_pulumi(stack).node_pools.values()
    in_a_cloud = any(pool.provider in NODE_GROUPS for pool in pools)
    variable = "PULUMI_SKIP_CHECKPOINTS"
    return {} if in_a_cloud else {variable: os.environ.get(variable, "true")}


Effects = Callable[[Sequence[Step]], tuple[Mapping[str, Sequence[impact.Touched]], Mapping[str, str]]]
"""What steps do to TrainJobs, by URN, and what could not be seen, with the reason."""


class Teller:
    """Puts Pulumi's events into words, one after the other."""

    def __init__(
        self,
        stack: str,
        out: TextIO,
        progress: Progress,
        effects: Effects,
        deleted_with: Callable[[str], Mapping[str, str]],
    ) -> None:
        self._stack, self._out, self._progress = stack, out, progress
        self._effects, self._deleted_with = effects, deleted_with
        self._steps: dict[str, Step] = {}
        self._begun: dict[str, Step] = {}
        self._done: set[str] = set()
        self._said: dict[object, None] = {}
        self._violations: dict[events.Violation, None] = {}
        progress.begin(f"Reading the cluster and what {stack} asks for")

    @property
    def changing(self) -> int:
        """How many objects the preview would change."""
        return words.changing(self._steps.values())

    def replaced(self, allowed: Sequence[str]) -> list[str]:
        """What of the preview is replaced though it holds jobs or quotas, and nobody has allowed it."""
        return replacements.not_allowed(self._steps.values(), allowed)

    def begin_update(self, cluster: str) -> None:
        """After the preview: what Pulumi prints from now on is about the update of that cluster."""
        to = f" to {cluster}" if cluster else ""
        self._progress.begin(f"Rolling out {self._stack}{to}", len(self._steps))

    def hear(self, line: str) -> None:
        """Process one line that Pulumi has printed."""
        try:
            event = events.read(line)
        except ValueError:
            self._progress.say(line)
            return
        match event:
            case events.Planned(step, preview):
                (self._steps if preview else self._begun)[step.urn] = step
            case events.Done(urn, preview):
                self._count(urn, self._steps if preview else self._begun)
            case events.Waiting(urn, text) if urn in self._begun:
                self._progress.at(len(self._done), f"{self._name(urn)}: {text}")
            case events.Said():
                self._say(event)
            case events.Violation():
                self._violations[event] = None
            case events.Ended(preview=True, succeeded=succeeded):
                self._tell_plan(succeeded=succeeded)
            case events.Ended(preview=False, succeeded=succeeded):
                self._tell_end(succeeded=succeeded)

    def _count(self, urn: str, steps: Mapping[str, Step]) -> None:
        if (step := steps.get(urn)) is not None:
            self._done.add(urn)
            self._progress.at(len(self._done), step.name)

    def _say(self, said: events.Said) -> None:
        of_the_program = not said.urn or _TOLD_BY_THE_PROGRAM in said.urn
        if said in self._said or (said.severity is Severity.INFO and not of_the_program):
            return
        self._said[said] = None
        about = "" if of_the_program else f"{self._name(said.urn)}: "
        mark = "" if said.severity is Severity.INFO else f"{said.severity}: "
        self._progress.say(clean(f"{mark}{about}{said.text}"))

    def _name(self, urn: str) -> str:
        step = self._begun.get(urn) or self._steps.get(urn)
        return step.name if step is not None else urn.rpartition("::")[2]

    def _tell_plan(self, *, succeeded: bool) -> None:
        steps = list(self._steps.values())
        if any(step.op is Op.DELETE for step in steps):
            steps = list(words.left(steps, self._deleted_with(self._stack)))
        found, unseen = self._effects(steps)
        self._print(words.details(steps, found))
        self._print(words.violations(list(self._violations), steps))
        self._print(f"Could not see {what}: {why}" for what, why in sorted(unseen.items()))
        failed = f"{self._stack}: the preview failed, and nothing has been changed"
        self._print([words.summary(self._stack, steps) if succeeded else failed])
        self._violations.clear()
        self._done.clear()

    def _tell_end(self, *, succeeded: bool) -> None:
        refused = [one for one in self._violations if one.mandatory]
        self._print(words.violations(refused, self._steps.values()))
        done = [step for urn, step in self._begun.items() if urn in self._done and step.op is not Op.SAME]
        made = f"{len(done)} of {self.changing} changes made"
        if not succeeded:
            made = f"it did not finish, with {made}"
        elif not self.changing:
            made = "there was nothing to change"
        self._print([f"{self._stack}: {made}"])

    def _print(self, lines: Iterable[str]) -> None:
        for line in lines:
            print(clean(line), file=self._out)
        self._out.flush()


@contextmanager
def _started(
    command: Sequence[str], environment: Mapping[str, str]
) -> Iterator[tuple[subprocess.Popen[str], Iterator[str]]]:
    """A process and its lines; stopping this command stops Pulumi, which then finishes what it has begun."""
    with subprocess.Popen(command, env=dict(environment), stdout=subprocess.PIPE, text=True) as process:
        before = signal.signal(signal.SIGTERM, lambda *_: process.send_signal(signal.SIGINT))
        # From a terminal, Pulumi gets SIGINT by itself.
        ignored = signal.signal(signal.SIGINT, lambda *_: None)
        try:
            yield process, (line.rstrip("\n") for line in process.stdout or () if line.strip())
        finally:
            signal.signal(signal.SIGTERM, before)
            signal.signal(signal.SIGINT, ignored)


def _effects(
    steps: Sequence[Step], stack: str, kubeconfig: str | None, context: str | None
) -> tuple[Mapping[str, Sequence[impact.Touched]], Mapping[str, str]]:
    changes = {step.urn: change for step in steps if (change := words.change(step)) is not None}
    if not any(change.ref.kind in _TOUCHING for change in changes.values()):
        return {}, {}

    async def seen() -> Seen:
        credentials = connection.of_stack(stackfile.read_as_pulumi(stack).cluster, kubeconfig, context)
        async with connection.client(credentials, "preview") as client:
            return await look(client, pools=False)

    try:
        found = asyncio.run(seen())
    except (CredentialsError, ApiError, PlatformError) as error:
        return {}, {"the TrainJobs": str(error)}
    return {urn: impact.touched(change, found.jobs) for urn, change in changes.items()}, found.unseen


def _deleted_with(stack: str) -> Mapping[str, str]:
    """By URN, the resource whose deletion deletes it, such as a namespace; empty if Pulumi does not say."""
    try:
        return pulumi_state.deleted_with(rendering.rolled_out(stack))
    except PlatformError:
        return {}


_VERBOSE = Annotated[
    bool,
    typer.Option("--verbose", envvar="VERBOSE", help="Print Pulumi's own output instead."),
]
_STACK = Annotated[str, typer.Option(help="The stack.", metavar="NAME")]


def preview_command(
    stack: _STACK,
    *,
    expect_no_changes: Annotated[
        bool, typer.Option("--expect-no-changes", help="Fail if anything would change; checks no policy.")
    ] = False,
    verbose: _VERBOSE = False,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> None:
    """Say what `up` would change in a stack, object by object, and what that does to TrainJobs.

    Runs `pulumi preview --refresh` with the policies, after the cluster has judged
    the runtimes in a dry run, if your rights allow that.
    Exit code: Pulumi's, 0 if it can be rolled out; 1 if the cluster would refuse a runtime.

    Example: trainyard preview --stack prod
    """
    raise typer.Exit(
        run(
            stack,
            change=False,
            expect_no_changes=expect_no_changes,
            verbose=verbose,
            kubeconfig=kubeconfig,
            context=context,
        )
    )


def up_command(
    stack: _STACK,
    *,
    repair: Annotated[
        bool, typer.Option("--repair", help="Then undo what others have added to the stack's objects.")
    ] = False,
    keep: Keep = None,
    replace: Replace = None,
    verbose: _VERBOSE = False,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> None:
    """Roll out a stack, after saying what that does, without asking for confirmation.

    Runs `pulumi preview --refresh`, then `pulumi up`, both with the policies.
    What others have added to the stack's objects stays, unless you add
    --repair: see `trainyard drift --repair`. Exit code: Pulumi's, 0 if all of
    it is done; with --repair then that of `drift`.

    Example: trainyard up --stack prod --repair
    """
    raise typer.Exit(
        run(
            stack,
            change=True,
            repair=repair,
            keep=keep or (),
            replace=replace or (),
            verbose=verbose,
            kubeconfig=kubeconfig,
            context=context,
        )
    )
