"""Runs Pulumi on a stack, and puts what its engine reports into words.

Used by `rollout` and `destroy`, each of which has a preview before it changes anything.
"""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final, NamedTuple, TextIO

from trainyard_api.errors import UserError
from trainyard_api.pools import NODE_GROUPS
from trainyard_api.printable import clean
from trainyard_delivery.rollout import events, words
from trainyard_delivery.rollout.events import Op, Severity, Step, Violation
from trainyard_delivery.rollout.outcome import Outcome
from trainyard_kube.credentials import Credentials
from trainyard_platform.errors import PlatformError
from trainyard_platform.stack.settings import Cluster, StackSettings

from ..cluster import connection
from .rollout_progress import Progress

_TOLD_BY_THE_PROGRAM: Final = "pulumi:pulumi:Stack"
_NO_EVENT: Final = "error: "
"""How Pulumi's command says what ends it before there is an event."""
_CHANGING: Final = ("up", "destroy")
"""Subcommands that lock the stack."""
_PASSED_ON: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""Unless they are ignored, as SIGHUP is under nohup. Pulumi itself does not survive SIGHUP."""
_SAME_CTRL_C: Final = 1.0
"""Seconds within which a second SIGINT is the same Ctrl-C, which a wrapper of this command has passed on."""


def target(stack: str, cluster: Cluster, kubeconfig: str | None, context: str | None) -> Credentials:
    """How to reach the cluster of the stack's file.

    Raises:
        PlatformError: The options name another cluster than the one that Pulumi goes by.
        CredentialsError: Only Pulumi can tell, or nobody.
    """
    connection.choose(cluster, kubeconfig, context)
    if context and cluster.context is None:
        raise PlatformError(
            f"--context {context}: the stack {stack} has no cluster.context, so Pulumi goes by the current"
            " one of the kubeconfig. Write it into the stack file, or run: "
            f"kubectl config use-context {context}"
        )
    return connection.of_stack(cluster, kubeconfig, context)


def pulumi(
    arguments: Sequence[str], stack: str, listener: Teller | Echo, variables: Mapping[str, str]
) -> int:
    """Run Pulumi on a stack; returns its exit code.

    If Pulumi was killed, says what that leaves and what comes next; the exit code is then that of a shell,
    128 plus the number of the signal. So it is if this command got a signal that came too late for Pulumi.

    Raises:
        UserError: Pulumi cannot be run.
    """
    command = ["pulumi", *arguments, "--stack", stack, "--non-interactive", "--color", "never"]
    environment = {
        **os.environ,
        **variables,
        # Git takes precedence over whoever wrote a field that a stack sets: a person, or a killed `up`.
        "PULUMI_K8S_ENABLE_PATCH_FORCE": "true",
        "PULUMI_ENABLE_STREAMING_JSON_PREVIEW": "true",
    }
    if kubeconfigs := environment.get("KUBECONFIG"):
        # Pulumi starts its provider in the folder of the program.
        environment["KUBECONFIG"] = connection.absolute(kubeconfigs)
    with _started([*command, listener.form], environment, listener.warn) as (process, signals):
        for line in process.stdout or ():
            listener.hear(line.rstrip("\n"))
        code = process.wait()
    if signals:
        listener.interrupt()
    ended_by, changes = (-code if code < 0 else 0), arguments[0] in _CHANGING
    if code == 0 and signals and not changes:
        ended_by = signals[0]  # who ends a preview does not want what follows it
    if ended_by:
        listener.fail(killed(signal.Signals(ended_by), stack, changes=changes))
        return 128 + ended_by
    return code or (128 + signals[0] if signals else 0)


def killed(number: signal.Signals, stack: str, *, changes: bool) -> str:
    """What it means that a signal has ended Pulumi, and the next step."""
    ended = f"error: {number.name} ended pulumi"
    if not changes:
        return f"{ended}. A preview changes nothing: run the same command again"
    return (
        f"{ended} before it was done. What it has changed stays in the cluster, and its lock on {stack} "
        f"stays too. Make sure that no pulumi works on {stack} any more, then run `pulumi cancel --stack "
        f"{stack} --yes` and the same command again, which continues (docs/upgrade-and-removal.md)"
    )


def few_checkpoints(settings: StackSettings) -> Mapping[str, str]:
    """Write the state once, at the end, unless a kill could lose a node group that costs money.

    An object of the cluster that a killed `up` has made is taken over by the next.
    """
    in_a_cloud = any(pool.provider in NODE_GROUPS for pool in settings.node_pools.values())
    variable = "PULUMI_SKIP_CHECKPOINTS"
    return {} if in_a_cloud else {variable: os.environ.get(variable, "true")}


class Plan(NamedTuple):
    """The text of a preview."""

    lines: Sequence[str]
    summary: str
    """Without the stack's name."""


class Echo:
    """Prints what Pulumi prints, as it is."""

    form: Final = "--suppress-progress"
    """The option by which Pulumi prints it."""

    def __init__(self, out: TextIO, err: TextIO) -> None:
        self._out, self._err = out, err

    def hear(self, line: str) -> None:
        """Print a line of Pulumi's output."""
        print(line, file=self._out, flush=True)

    def warn(self, line: str) -> None:
        """Print a line that Pulumi wrote to stderr."""
        print(line, file=self._err, flush=True)

    def fail(self, line: str) -> None:
        """Print what has ended Pulumi."""
        self.warn(line)

    def interrupt(self) -> None:
        """Nothing: what Pulumi prints says it."""


class Teller:
    """Puts Pulumi's events into words, one after the other."""

    form: Final = "--json"
    """The option by which Pulumi reports its events."""

    def __init__(
        self,
        stack: str,
        out: TextIO,
        progress: Progress,
        plan: Callable[[Sequence[Step], Sequence[Violation]], Plan],
    ) -> None:
        """`plan` writes the effects of a preview, and the messages of policies."""
        self._stack, self._out, self._progress, self._plan = stack, out, progress, plan
        self._steps: dict[str, Step] = {}
        self._begun: dict[str, Step] = {}
        self._done: set[str] = set()
        self._said: dict[object, None] = {}
        self._violations: dict[Violation, None] = {}
        self._summary = ""
        self._refusals: tuple[str, ...] = ()
        self._errors: list[str] = []
        self._interrupted = False
        self._moving = self._moved = ""

    @property
    def outcome(self) -> Outcome:
        """The result of the preview so far."""
        return Outcome(self._summary, self._refusals, tuple(self._errors))

    @property
    def steps(self) -> Sequence[Step]:
        """The steps of the preview."""
        return list(self._steps.values())

    @property
    def changing(self) -> int:
        """How many objects the preview would change."""
        return words.changing(self._steps.values())

    @property
    def may_try_again(self) -> bool:
        """Whether an update has failed only because a webhook did not answer."""
        return not self._interrupted and words.is_unanswered(self._errors)

    def try_again(self) -> None:
        """Forget the errors of an update. What it has changed still counts."""
        self._errors.clear()
        self._said.clear()

    def interrupt(self) -> None:
        """Remember that somebody has ended the command."""
        self._interrupted = True

    def begin(self, doing: str) -> None:
        """The current step of Pulumi's output."""
        self._progress.begin(doing, len(self._steps))

    def begin_move(self, written: str) -> None:
        """The next update only writes this into Pulumi's state, such as the stack's new cluster."""
        self._moving = written
        self.begin(f"Writing the new {written} into Pulumi's state of {self._stack}")

    def end_move(self, *, succeeded: bool) -> None:
        """Tell how that went."""
        written, self._moving = self._moving, ""
        self._moved = written if succeeded else ""
        named = f"Pulumi's state now names the new {written}; nothing else has been changed yet"
        failed = f"Pulumi's state may still name the old {written}; nothing else has been changed"
        self._print([f"{self._stack}: {named if succeeded else failed}"])

    def hear(self, line: str) -> None:
        """Process one line that Pulumi has printed."""
        if not line.strip():
            return
        try:
            event = events.read(line)
        except ValueError:
            if line.startswith(_NO_EVENT):
                self._errors.append(clean(line))
            self._progress.say(line)
            return
        match event:
            case events.Planned(step, preview=True):
                self._steps[step.urn] = step
            # The second try of an update finds the changes of the first.
            case events.Planned(step) if step.op is not Op.SAME or step.urn not in self._done:
                self._begun[step.urn] = step
            case events.Done(urn, preview):
                self._count(urn, self._steps if preview else self._begun)
            case events.Waiting(urn, text) if urn in self._begun:
                self._progress.at(len(self._done), f"{self._name(urn)}: {text}")
            case events.Diagnostic():
                self._say(event)
            case events.Violation():
                self._violations[event] = None
            case events.Ended(preview=True, succeeded=succeeded):
                self._tell_plan(succeeded=succeeded)
            case events.Ended(preview=False, succeeded=succeeded):
                self._tell_end(succeeded=succeeded)

    def warn(self, line: str) -> None:
        """Print a line that Pulumi wrote to stderr."""
        self._progress.say(line)

    def learn(self, line: str) -> None:
        """Keep the step of a preview, if the line has one, and say nothing."""
        match events.read(line):
            case events.Planned(step, preview=True):
                self._steps[step.urn] = step

    def fail(self, line: str) -> None:
        """Print and keep what has ended Pulumi, where it could not say so itself."""
        self._errors.append(line)
        self._progress.say(line)

    def _count(self, urn: str, steps: Mapping[str, Step]) -> None:
        if (step := steps.get(urn)) is not None:
            self._done.add(urn)
            self._progress.at(len(self._done), step.name)

    def _say(self, message: events.Diagnostic) -> None:
        of_the_program = not message.urn or _TOLD_BY_THE_PROGRAM in message.urn
        if message in self._said or (message.severity is Severity.INFO and not of_the_program):
            return
        self._said[message] = None
        about = "" if of_the_program else f"{self._name(message.urn)}: "
        mark = "" if message.severity is Severity.INFO else f"{message.severity}: "
        line = clean(f"{mark}{about}{message.text}")
        if message.severity is Severity.ERROR:
            self._errors.append(line)
        self._progress.say(line)

    def _name(self, urn: str) -> str:
        step = self._begun.get(urn) or self._steps.get(urn)
        return step.name if step is not None else urn.rpartition("::")[2]

    def _tell_plan(self, *, succeeded: bool) -> None:
        plan = self._plan(self.steps, list(self._violations))
        still = f"nothing has been changed but Pulumi's state, which names the new {self._moved}"
        failed = f"the preview failed, and {still if self._moved else 'nothing has been changed'}"
        self._summary = plan.summary if succeeded else failed
        self._refusals = tuple(map(clean, self._refused()))
        self._print([*plan.lines, f"{self._stack}: {self._summary}"])
        self._violations.clear()
        self._done.clear()

    def _tell_end(self, *, succeeded: bool) -> None:
        self._print(self._refused())
        if self._moving:
            return
        done = [step for urn, step in self._begun.items() if urn in self._done and step.op is not Op.SAME]
        made = f"{len(done)} of {self.changing} changes made"
        if not succeeded:
            made = f"it did not finish, with {made}"
        elif not self.changing:
            made = "there was nothing to change"
        self._print([f"{self._stack}: {made}"])

    def _refused(self) -> Iterator[str]:
        return words.violations([one for one in self._violations if one.mandatory], self._steps.values())

    def _print(self, lines: Iterable[str]) -> None:
        for line in lines:
            print(clean(line), file=self._out)
        self._out.flush()


@contextmanager
def _started(
    command: Sequence[str], environment: Mapping[str, str], warn: Callable[[str], None]
) -> Iterator[tuple[subprocess.Popen[str], Sequence[int]]]:
    """A process, and the signals that this command gets meanwhile. `warn` gets the lines of its stderr.

    Stopping this command stops Pulumi, which then finishes what it has begun. Pulumi writes only to this
    command: a program in Go ends at once if the reader of its output has gone, as `tee` after Ctrl-C.
    """
    with _passed_on() as passing, _process(command, environment) as process:

        def relay() -> None:
            for line in process.stderr or ():
                warn(line.rstrip("\n"))

        passing.to(process)
        relaying = threading.Thread(target=relay)
        relaying.start()
        try:
            yield process, passing.signals
        finally:
            for _ in process.stdout or ():  # after an error: Pulumi would not survive that nobody reads
                pass
            relaying.join()


def _process(command: Sequence[str], environment: Mapping[str, str]) -> subprocess.Popen[str]:
    try:
        return subprocess.Popen(
            command,
            env=dict(environment),
            # A session of its own gets no signal of this one's group, and could not ask at the terminal.
            start_new_session=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            encoding="utf-8",
            errors="replace",
        )
    except OSError as error:
        raise UserError(f"pulumi cannot be run: {error.strerror}") from error


class _Passing:
    """Passes signals on to a process as SIGINT, by the second of which Pulumi abandons what it has begun.

    So a further SIGTERM or SIGHUP is not passed on: `timeout` and `make` each send one. A second Ctrl-C is.
    """

    def __init__(self) -> None:
        self.signals: list[int] = []
        self._process: subprocess.Popen[str] | None = None
        self._passed: float | None = None
        self._lock = threading.Lock()

    def to(self, process: subprocess.Popen[str]) -> None:
        """Pass them on to this process, also one that came before it."""
        with self._lock:
            self._process = process
            if self.signals and self._passed is None:
                self._pass_on()

    def take(self, number: int) -> None:
        """Handle a signal."""
        with self._lock:
            self.signals.append(number)
            again = number == signal.SIGINT and time.monotonic() - (self._passed or 0.0) >= _SAME_CTRL_C
            if self._passed is None or again:
                self._pass_on()

    def _pass_on(self) -> None:
        if self._process is not None:
            self._passed = time.monotonic()
            self._process.send_signal(signal.SIGINT)


@contextmanager
def _passed_on() -> Iterator[_Passing]:
    """Pass signals on, by a thread that reads their numbers.

    A handler in Python runs only between two steps of the main thread, which reads what Pulumi writes: for a
    signal right before such a read, a handler would run when Pulumi has written more, or never.
    """
    passing = _Passing()
    heard = [number for number in _PASSED_ON if signal.getsignal(number) is not signal.SIG_IGN]
    arrived, arriving = os.pipe()
    os.set_blocking(arriving, False)

    def take() -> None:
        while number := os.read(arrived, 1):
            if number[0] in heard:
                passing.take(number[0])

    other = signal.set_wakeup_fd(arriving, warn_on_full_buffer=False)  # first: handlers take no notice
    before = {number: signal.signal(number, lambda *_: None) for number in heard}
    taking = threading.Thread(target=take, daemon=True)
    taking.start()
    try:
        yield passing
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(other)
        os.close(arriving)
        taking.join()
        os.close(arrived)
