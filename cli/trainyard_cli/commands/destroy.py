"""`trainyard destroy`: remove a stack's platform from its cluster, after saying what stays.

Called by `main`, which adds `command` to the application. Runs Pulumi as `rollout`
does, and queries the cluster for TrainJobs; `trainyard_delivery.rollout.removal`
decides what there is to say.
"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Annotated, Final, TextIO

import typer

from trainyard_api.errors import UserError
from trainyard_api.json_types import Json
from trainyard_api.printable import clean
from trainyard_delivery import pulumi_state
from trainyard_delivery.rollout import removal, words
from trainyard_delivery.rollout.events import Step, Violation
from trainyard_kube.client import ApiError, NotFoundError
from trainyard_kube.credentials import Credentials, CredentialsError
from trainyard_platform.stack.settings import Cluster

from ..cluster import connection, moves
from ..cluster.workloads import Seen, look
from ..confirmation import confirmed
from ..files import basis, rendering, stackfile
from ..options import Context, Kubeconfig, StackName, same_place
from ..output import FINE, REFUSED
from .rollout_output import Lasting, raise_if_lost
from .rollout_progress import Progress
from .rollout_pulumi import Echo, Plan, Teller, few_checkpoints, pulumi, target

_UNPROTECTED: Final = "--exclude-protected"


def run(
    stack: str,
    *,
    ask: Callable[[str], bool],
    yes: bool = False,
    dry_run: bool = False,
    exclude_protected: bool = False,
    verbose: bool = False,
    kubeconfig: str | None = None,
    context: str | None = None,
    out: TextIO | None = None,
    err: TextIO | None = None,
) -> int:
    """Print what is deleted, what stays and what becomes of TrainJobs; then do it, and return the exit code.

    Unless `yes` is set, `ask` gets a question and returns whether to continue; with
    `dry_run` nothing is deleted, and with `exclude_protected` no protected node
    group. With `verbose`, Pulumi prints its own output while it deletes. The
    exit code is Pulumi's; 1: nothing is deleted, because nobody has said yes.

    Raises:
        UserError: The objects cannot be listed, or Pulumi cannot be run.
    """
    lasting = Lasting(out or sys.stdout), Lasting(err or sys.stderr)
    out, err = (stream.text for stream in lasting)
    settings = stackfile.read_as_pulumi(stack)
    credentials = target(stack, settings.cluster, kubeconfig, context)
    state = rendering.rolled_out(stack)
    if wrong := _contradictions(state, settings.cluster, credentials):
        raise UserError("\n".join(map(clean, wrong)))
    rolled_out = pulumi_state.identity(state)
    its_place = (
        moves.shown(credentials, "destroy")
        if rolled_out is None
        else moves.expected(rolled_out, credentials, "destroy", err)
    )
    print(clean(f"{stack}: {credentials.server} ({credentials.source})"), file=out, flush=True)
    try:
        seen = _look(credentials)
    except (CredentialsError, ApiError) as error:
        raise UserError(clean(f"Could not see the TrainJobs, so nothing is deleted: {error}")) from error
    its = {"KUBECONFIG": kubeconfig} if kubeconfig else {}
    only = [_UNPROTECTED] if exclude_protected else []
    steps: list[Step] = []

    def plan(planned: Sequence[Step], _: Sequence[Violation]) -> Plan:
        hosts, components = pulumi_state.deleted_with(state), pulumi_state.components(state)
        steps[:] = words.left(planned, hosts, components)
        lines = [
            *removal.paragraphs(steps, list(removal.fates(settings, steps, seen.jobs))),
            *(f"Could not see {what}: {why}" for what, why in sorted(seen.unseen.items())),
        ]
        return Plan(lines if steps else [], words.summary(steps))

    progress = Progress(err)
    teller = Teller(stack, out, progress, plan)
    with progress:
        teller.begin(f"Reading what {stack} has in its cluster")
        code = pulumi(["destroy", "--preview-only", *only], stack, teller, its)
    raise_if_lost(*lasting)
    if code or dry_run or not teller.changing:
        return code
    if not yes and not ask(f"Destroy {stack} in {clean(credentials.server)}?"):
        place = same_place(None, kubeconfig, context)
        again = shlex.join(["trainyard", "destroy", "--stack", stack, *place, *only, "--yes"])
        print(f"Nothing has been deleted. To do it without confirmation: {again}", file=err)
        return REFUSED

    def connect_again() -> Credentials:
        return target(stack, stackfile.read_as_pulumi(stack).cluster, kubeconfig, context)

    if wrong := [
        *moves.refusals(its_place, connect_again, "destroy"),
        *basis.refusals(basis.of_state(state), basis.of_state(rendering.rolled_out(stack)), stack),
    ]:
        raise UserError("\n".join(map(clean, wrong)))
    with progress:
        teller.begin(f"Destroying {stack} in {clean(credentials.server)}")
        command = ["destroy", "--yes", "--skip-preview", *only]
        listener = Echo(out, err) if verbose else teller
        code = pulumi(command, stack, listener, its | {**few_checkpoints(settings)})
    if code == FINE:
        print(*map(clean, removal.afterwards(stack, steps, credentials.options)), sep="\n", file=out)
    return code


def _contradictions(state: Json, cluster: Cluster, credentials: Credentials) -> list[str]:
    """Why the last roll-out found its cluster in another way than the stack file does."""
    rolled_out, of_file = pulumi_state.provider(state), connection.choose(cluster, None, None)
    if rolled_out is None:
        return []
    rolled_out = replace(rolled_out, kubeconfig=connection.expanded(rolled_out.kubeconfig))
    if (rolled_out.kubeconfig, rolled_out.context) == of_file:
        return []
    same_cluster = moves.leads_to(pulumi_state.identity(state), credentials, "destroy")
    return removal.contradictions(rolled_out, *of_file, same_cluster=same_cluster)


def _look(credentials: Credentials) -> Seen:
    """The TrainJobs that have not ended; none in a cluster that does not know TrainJobs."""
    try:
        return connection.ask(credentials, "destroy", lambda client: look(client, pools=True))
    except NotFoundError:
        return Seen()


def command(
    stack: StackName,
    *,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask for confirmation.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only print what would be deleted.")] = False,
    exclude_protected: Annotated[
        bool,
        typer.Option(_UNPROTECTED, help="Keep node groups of a cloud that are protected, and their nodes."),
    ] = False,
    verbose: Annotated[
        bool,
        typer.Option("--verbose", envvar="VERBOSE", help="Print Pulumi's own output while it deletes."),
    ] = False,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> None:
    """Remove a stack's platform from its cluster; TrainJobs stay.

    TrainJobs stay with their pods and CRDs. Prints first what is deleted, what stays, and the effect on each
    TrainJob that runs or waits. Then it asks, and runs `pulumi destroy`. `make
    up` brings the platform back and takes over what has stayed.

    Exit code: Pulumi's, 0 if it is done or was a dry run; 1 if nobody has said
    yes; 2 if the cluster could not be queried or Pulumi could not be run.

    Example: trainyard destroy --stack prod --dry-run
    """
    raise typer.Exit(
        run(
            stack,
            ask=confirmed,
            yes=yes,
            dry_run=dry_run,
            exclude_protected=exclude_protected,
            verbose=verbose,
            kubeconfig=kubeconfig,
            context=context,
        )
    )
