"""`trainyard impact`: what a change of runtimes or stacks does to existing TrainJobs.

Called by `main`, which adds `command` to the application. Queries git and the
cluster, and prints; `trainyard_delivery.impact` decides what follows from it.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, NamedTuple, TextIO

import typer

from trainyard_api import places, shown
from trainyard_api.places import Site
from trainyard_api.printable import clean
from trainyard_delivery import consequences, stack_names
from trainyard_delivery import impact as core
from trainyard_kube.credentials import Credentials
from trainyard_platform.catalog import stack_runtimes
from trainyard_platform.errors import PlatformError
from trainyard_platform.stack.settings import StackSettings

from ..cluster import connection
from ..cluster.workloads import Seen, look
from ..files import stackfile
from ..files.git import GitError, at_revision, changes_of_site, left
from ..options import Context, Kubeconfig, Printed, Since, StackOfCluster
from ..output import FINE, Output, write_json
from .questions import query

API_VERSION: Final = "impact.trainyard.dev/v1alpha1"
_UNJUDGED: Final = stack_names.EVERY_STACK_DEPENDS_ON - {"runtimes"}
_LONGEST: Final = 60
"""Characters of a value that is shown."""


def run(
    stack: str,
    since: str,
    *,
    kubeconfig: str | None = None,
    context: str | None = None,
    output: Output = Output.TEXT,
    out: TextIO | None = None,
) -> int:
    """Print what has changed for a stack, and what that does to which TrainJob; returns the exit code.

    0: it is printed, even if there is nothing.

    Raises:
        UserError: Git, a file or the cluster could not be read.
    """
    out = out or sys.stdout
    with earlier(since) as then:
        before, after = asked(stack, then)
    changes, also = core.changes(before.objects, after.objects), unjudged(changes_of_site(since))
    seen = Seen()
    if changes:
        credentials = _credentials(stack, before, after, kubeconfig, context)
        pools = any(change.ref.kind == core.NODE_POOL for change in changes)
        seen = query(credentials, "impact", lambda client: look(client, pools=pools))
    advice = new_advice(before.settings, after.settings)
    value = document(stack, since, changes, seen, also, after=after.objects, advice=advice)
    if output is Output.JSON:
        write_json(value, out)
    else:
        out.write(as_text(value))
    return FINE


@dataclass(frozen=True, slots=True)
class Asked:
    """The objects of a stack."""

    settings: StackSettings | None = None
    """None if the stack has no file."""
    objects: Mapping[core.Ref, Mapping[str, Any]] = field(default_factory=dict)


class WasInvalidError(PlatformError):
    """The stack's files were invalid where this branch left, and are valid now."""


class Earlier(NamedTuple):
    """The stacks and runtimes of a site as a revision has them, in a temporary folder."""

    site: Site
    folder: str
    revision: str


@contextmanager
def earlier(since: str) -> Iterator[Earlier]:
    """The current site where this branch left `since`. Raises `GitError` if git cannot say."""
    here, revision = places.site(), left(since)
    with TemporaryDirectory() as folder:
        runtimes, _ = at_revision(revision, [here.runtimes, here.stacks], Path(folder))
        yield Earlier(Site(runtimes.parent), folder, revision)


def asked(stack: str, then: Earlier) -> tuple[Asked, Asked]:
    """The stack's objects then, and now.

    Raises `GitError` if there is no such stack, `PlatformError` if a file is wrong,
    and `WasInvalidError` if it only was.
    """
    here = places.site()
    after = _asked(here, stack, here.beneath)
    try:
        before = _asked(then.site, stack, here.beneath)
    except PlatformError as error:
        # git's own notation for a file of a revision.
        problems = str(error).replace(f"{then.folder}/", f"{then.revision[:12]}:")
        raise WasInvalidError(
            f"{problems}\nThis was so where this branch left, and is valid now. An invalid file cannot "
            f"be compared with: see the preview of {stack}"
        ) from error
    if before.settings is None and after.settings is None:
        raise GitError(f"stacks/{places.stack_file(stack)}: there is no such stack, nor was there one")
    return before, after


def unjudged(changed: Iterable[str]) -> list[str]:
    """Folders outside runtimes and stacks that have changed files and affect all stacks."""
    return sorted({path.split("/")[0] for path in changed} & _UNJUDGED)


def new_advice(before: StackSettings | None, after: StackSettings | None) -> list[str]:
    """New settings without effect in the stack file, a sentence each."""
    old, new = (settings.advice() if settings else {} for settings in (before, after))
    return [f"{place}: {sentence}" for place, sentence in new.items() if place not in old]


def document(
    stack: str,
    since: str,
    changes: tuple[core.Change, ...],
    seen: Seen,
    also: list[str],
    *,
    after: Mapping[core.Ref, Mapping[str, Any]],
    advice: Sequence[str] = (),
) -> dict[str, Any]:
    """The answer as JSON values, in the format that docs/gitops.md describes."""
    return {
        "apiVersion": API_VERSION,
        "kind": "Impact",
        "stack": stack,
        "since": since,
        "changes": [
            {
                **change.ref._asdict(),
                "change": change.verb.value,
                "fields": [asdict(difference) for difference in change.fields],
                "means": [*consequences.of(change)],
                "trainJobs": [
                    {
                        "namespace": touched.job.namespace,
                        "name": touched.job.name,
                        "state": touched.job.state.value,
                        "keeps": touched.keeps,
                        "loses": touched.loses,
                    }
                    for touched in core.touched(change, seen.jobs, after)
                ],
            }
            for change in changes
        ],
        "advice": [*advice],
        "unjudged": also,
        "unseen": [{"what": what, "why": why} for what, why in sorted(seen.unseen.items())],
    }


def as_text(value: Mapping[str, Any]) -> str:
    """The answer for people."""
    return "".join(f"{clean(line)}\n" for line in _lines(value))


def _lines(value: Mapping[str, Any]) -> Iterator[str]:
    jobs = {(job["namespace"], job["name"]) for change in value["changes"] for job in change["trainJobs"]}
    yield (
        f"{value['stack']}: {_many(len(value['changes']), 'object')} of its runtimes, queues, pools and "
        f"tenants changed since {value['since']}, {_many(len(jobs), 'TrainJob')} touched"
    )
    for change in value["changes"]:
        yield ""
        yield f"{core.Ref(change['kind'], change['namespace'], change['name'])}: {change['change']}"
        yield from details(change)
    if value["advice"]:
        yield ""
        yield from value["advice"]
    if value["unjudged"]:
        yield ""
        yield f"Changed as well, see the preview: {', '.join(value['unjudged'])}"
    for unseen in value["unseen"]:
        yield f"Could not see {unseen['what']}: {unseen['why']}"


def details(change: Mapping[str, Any]) -> Iterator[str]:
    """A line for each field, each consequence and each TrainJob of one of a document's changes."""
    for difference in change["fields"]:
        before, after = shown.apart(text_of(difference["before"]), text_of(difference["after"]), _LONGEST)
        yield f"  {difference['path']}: {before} -> {after}"
    yield from (f"  {sentence}" for sentence in change["means"])
    for job in change["trainJobs"]:
        loses = f"; loses {job['loses']}" if job["loses"] else ""
        yield f"  {job['namespace']}/{job['name']} ({job['state']}) keeps {job['keeps']}{loses}"


def _many(number: int, noun: str) -> str:
    return f"{number or 'no'} {noun}{'' if number == 1 else 's'}"


def text_of(value: object) -> str:
    """A value of a field in words."""
    return "nothing" if value is None else value if isinstance(value, str) else json.dumps(value)


def _asked(site: Site, stack: str, beneath: Path | None) -> Asked:
    """The stack's objects in a site, on top of this catalog; none if the site has no file for it."""
    if not (site.stacks / places.stack_file(stack)).exists():
        return Asked()
    settings = stackfile.read(stack, site.stacks)
    registry = stackfile.artifacts(settings).registry
    runtimes = stack_runtimes.load(site.runtimes, settings, registry, beneath=beneath)
    return Asked(settings, core.objects(settings, runtimes))


def _credentials(
    stack: str, before: Asked, after: Asked, kubeconfig: str | None, context: str | None
) -> Credentials:
    settings = stackfile.read_as_pulumi(stack) if after.settings else before.settings
    assert settings is not None  # noqa: S101 (`asked` has refused it)
    return connection.of_stack(settings.cluster, kubeconfig, context)


def command(
    stack: StackOfCluster,
    since: Since,
    *,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    output: Printed = Output.TEXT,
) -> None:
    """List the TrainJobs that a change of stack or catalog affects.

    Compares runtimes, queues, pools and tenants: what the stack asks for now with what it asked
    for where this branch left REF, and looks for running and queued TrainJobs that depend on
    it; needs only read rights. Exit code 2: git, a file or the cluster could not be read.

    Example: trainyard impact --stack prod --since origin/main
    """
    raise typer.Exit(run(stack, since, kubeconfig=kubeconfig, context=context, output=output))
