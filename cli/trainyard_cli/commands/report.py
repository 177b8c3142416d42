"""`trainyard report`: what a pull request does, as Markdown for those who review it.

Called by `main`, which adds `command` to the application. Queries git, reads
what a pipeline has kept of `make preview` and `make impact`, and prints;
`report_markdown` writes the text. Needs no cluster, no Pulumi and no git host.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import date
from fnmatch import fnmatch
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any, Final, NamedTuple, TextIO

import typer

from trainyard_api import names, places
from trainyard_api.documents import DocumentError, parse
from trainyard_api.places import Site
from trainyard_api.printable import clean
from trainyard_delivery import impact as core
from trainyard_delivery import stack_names
from trainyard_delivery.replacements import of_stack
from trainyard_delivery.rollout.outcome import Outcome
from trainyard_platform.errors import PlatformError
from trainyard_platform.stack import release_images
from trainyard_platform.stack.settings import StackSettings
from trainyard_policies.lint import granted
from trainyard_policies.settings import Policies

from ..cluster.workloads import Seen
from ..files import outcomes, pin, stackfile
from ..files.git import at_revision, changes_of_site, left
from ..options import Since
from ..output import FINE
from . import impact, report_markdown, verify
from .report_change import Change, Preview, Stack

IMPACT: Final = "impact"
"""The folder with the output of `make impact FORMAT=json`, inside that of the previews."""
_AS_OBJECTS: Final = {"runtimes", "node_pools", "queues"}
"""The parts of a stack file that are reported object by object."""
_POLICIES: Final = "policies"
_IMAGES: Final = "artifacts.images"
_CACHE_IMAGE: Final = "dataCache.cacheImage"
_LETS_THROUGH: Final = re.compile(r"(policies\.|artifacts\.images\b|dataCache\.cacheImage\b)")
"""The settings that decide what pods can be: those of the rules, and images that are allowed in addition."""


def run(
    since: str,
    *,
    results: Path | None = None,
    address: str = "",
    site: Site | None = None,
    today: date | None = None,
    out: TextIO | None = None,
    err: TextIO | None = None,
) -> int:
    """Print what has changed since, as Markdown; returns the exit code.

    0: it is printed, whatever it says. Why the outcome of a preview cannot be read goes to `err`.

    Args:
        since: The revision from which this branch left.
        results: A folder with `<stack>.txt`, `<stack>.exit` and `<stack>.json` of each preview, and in
            `impact/` the first two and `<stack>.out` of each `make impact FORMAT=json`; None if neither has
            run.
        address: URL of the pipeline's run that made the results.
        site: The site; None: that of the current folder.
        today: The date to compare the ends of exceptions with.
        out: Where to print.
        err: Where to say what cannot be read.

    Raises:
        UserError: Git or the folders cannot be read.
    """
    out, err = out or sys.stdout, err or sys.stderr
    today = today or date.today()
    site = site or places.site()
    changed = changes_of_site(since)
    names_of = stack_names.delivered(site.stacks)
    findings, _ = verify.look(since=since, site=site, today=today)
    touched = stack_names.touched(names_of, changed, stackfile.vendored_of(names_of, site.stacks))
    stacks: list[Stack] = []
    if touched:
        with impact.earlier(since) as then:
            stacks = [_stack(name, since, then, results, today) for name in touched]
    versions = _versions(changed, since, site.root)
    change = Change(
        findings,
        stacks,
        not_installed=_not_installed(changed, since, stacks, site.runtimes, today),
        removed=_gone(changed, site.stacks),
        versions=versions,
        unjudged=[name for name in impact.unjudged(changed) if versions is None or name != pin.FILE],
        has_results=results is not None,
        run=address,
    )
    out.write(report_markdown.text(change))
    for stack in stacks:
        if stack.preview is not None and stack.preview.not_read:
            print(clean(stack.preview.not_read), file=err)
    return FINE


def _stack(name: str, since: str, then: impact.Earlier, results: Path | None, today: date) -> Stack:
    stack = Stack(name, preview=None if results is None else _preview(results, name))
    try:
        before, after = impact.asked(name, then)
    except PlatformError as error:
        was_invalid = isinstance(error, impact.WasInvalidError)
        return replace(stack, not_compared=str(error), was_invalid=was_invalid)
    fields = core.differences(_besides(before.settings), _besides(after.settings))
    changes_of_objects = core.changes(before.objects, after.objects)
    stack = replace(
        stack,
        granted=(*_runtimes(changes_of_objects, today), *_policies(fields)),
        runtimes=frozenset(
            ref.name
            for ref in {*before.objects, *after.objects}
            if ref.kind == names.CLUSTER_TRAINING_RUNTIME
        ),
    )
    if before.settings is None:
        return replace(stack, is_new=True)
    if after.settings is not None:
        stack = replace(stack, replaced=tuple(of_stack(name, before.settings, after.settings)))
    stack = replace(
        stack,
        changes=impact.document(name, since, changes_of_objects, Seen(), [], after=after.objects)["changes"],
        settings=fields,
    )
    return _with_jobs(stack, results) if changes_of_objects else stack


def _with_jobs(stack: Stack, results: Path | None) -> Stack:
    """The stack with the TrainJobs that `make impact` has found, or why it has found none."""
    if results is None:
        return replace(stack, not_seen="no cluster was queried for affected TrainJobs")
    kept = _kept(results / IMPACT, stack.name)
    if kept is None:
        return replace(stack, not_seen="its job ended before the TrainJobs were queried")
    if kept.code:
        return replace(stack, not_seen=f"the TrainJobs could not be seen: {kept.output.strip()}")
    try:
        document = json.loads(_stdout(results / IMPACT, stack.name) or kept.output)
        jobs = {_ref(change): change["trainJobs"] for change in document["changes"]}
        unseen = [f"could not see {entry['what']}: {entry['why']}" for entry in document["unseen"]]
    except (KeyError, TypeError, ValueError):
        return replace(stack, not_seen="the output of make impact is not that of FORMAT=json")
    with_jobs = [{**change, "trainJobs": jobs.get(_ref(change), [])} for change in stack.changes]
    return replace(stack, changes=with_jobs, not_seen="; ".join(unseen))


def _ref(change: Mapping[str, Any]) -> core.Ref:
    return core.Ref(change["kind"], change["namespace"], change["name"])


class _Kept(NamedTuple):
    """A command's output and exit code, as a pipeline keeps them."""

    code: int
    output: str


def _kept(folder: Path, stack: str) -> _Kept | None:
    try:
        code = int((folder / f"{stack}.exit").read_text(encoding="utf-8"))
        return _Kept(code, (folder / f"{stack}.txt").read_text(encoding="utf-8", errors="replace"))
    except (OSError, ValueError):
        return None


def _stdout(folder: Path, stack: str) -> str:
    """A command's stdout alone; empty if a pipeline does not keep it apart."""
    try:
        return (folder / f"{stack}.out").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def _preview(results: Path, stack: str) -> Preview | None:
    kept = _kept(results, stack)
    if kept is None:
        return None
    try:
        return Preview(*kept, outcomes.read(results / f"{stack}.json", stack))
    except PlatformError as error:
        return Preview(*kept, Outcome(), str(error))


def _besides(settings: StackSettings | None) -> Mapping[str, Any]:
    """The parts of a stack file that are not reported object by object."""
    if settings is None:
        return {
            _POLICIES: Policies().model_dump(mode="json", by_alias=True),
            "artifacts": {"images": []},
            "dataCache": {"cacheImage": None},
        }
    return settings.model_dump(mode="json", by_alias=True, exclude=_AS_OBJECTS)


def _runtimes(changes_of_objects: Iterable[core.Change], today: date) -> Iterator[str]:
    for change in changes_of_objects:
        if change.ref.kind == names.CLUSTER_TRAINING_RUNTIME:
            before, after = (_manifest(change.ref.name, side) for side in (change.before, change.after))
            yield from (f"{change.ref.name}: {sentence}" for sentence in granted.by(before, after, today))


def _manifest(name: str, content: Mapping[str, Any]) -> Mapping[str, Any]:
    if not content:
        return {}
    kind = {"apiVersion": names.TRAINER_API_VERSION, "kind": names.CLUSTER_TRAINING_RUNTIME}
    return {**kind, "metadata": {"name": name}, **content}


def _not_installed(
    changed: Sequence[str], since: str, stacks: Sequence[Stack], catalog: Path, today: date
) -> dict[str, tuple[str, ...]]:
    """Changed runtimes that no stack has or had, and what is newly let through in each."""
    installed = {name for stack in stacks for name in stack.runtimes}
    paths = [Path(path) for path in changed if fnmatch(path, f"{catalog.name}/*/*.yaml")]
    paths = [path for path in paths if path.stem not in installed]
    if not paths or any(stack.not_compared for stack in stacks):
        return {}
    with TemporaryDirectory() as folder:
        [before] = at_revision(left(since), [catalog], Path(folder))
        manifests = [[_read(above / path) for above in (before.parent, catalog.parent)] for path in paths]
    return {
        path.stem: tuple(f"{path.stem}: {sentence}" for sentence in granted.by(before, after, today))
        for path, (before, after) in zip(paths, manifests, strict=True)
    }


def _versions(changed: Sequence[str], since: str, root: Path) -> tuple[str, str] | None:
    """The version of Trainyard before and after, if a change of a site's requirements moves it."""
    if pin.FILE not in changed:
        return None
    with TemporaryDirectory() as folder:
        [before] = at_revision(left(since), [root / pin.FILE], Path(folder))
        texts = [
            path.read_text(encoding="utf-8", errors="replace") if path.is_file() else ""
            for path in (before, root / pin.FILE)
        ]
    match [pin.read(text) for text in texts]:
        case [pin.Pin(old), pin.Pin(new)] if old != new:
            return old, new
    return None


def _read(path: Path) -> Mapping[str, Any]:
    """The manifest of a file; empty if there is none, or if it is unreadable, which `verify` reports."""
    try:
        [document] = parse(path.read_text(encoding="utf-8"), str(path))
    except (OSError, ValueError, DocumentError):
        return {}
    return document.value


def _policies(fields: Iterable[core.Field]) -> tuple[str, ...]:
    """The changes of settings that decide what pods can be: a sentence each, of all images together one."""
    letting = [field for field in fields if _LETS_THROUGH.match(field.path)]
    listed = [field for field in letting if field.path.startswith(_IMAGES)]
    before = [*_images(field.before for field in listed)]
    after = [*_images(field.after for field in listed)]
    images = []
    if [*map(release_images.name, before)] != [*map(release_images.name, after)]:
        # Without all of them, others are let through too.
        images = [f"{_IMAGES}: {json.dumps(before)} -> {json.dumps(after)}"]
    elif others := [name for name in map(release_images.name, after) if name != names.OPERATOR_IMAGE]:
        images = [f"{_IMAGES}: another image for {', '.join(others)}"]  # no pod may use the operator's
    return (
        *images,
        *(
            f"{field.path}: {json.dumps(field.before)} -> {json.dumps(field.after)}"
            for field in letting
            if field not in listed and not (field.path == _CACHE_IMAGE and field.after in after)
        ),
    )


def _images(values: Iterable[Any]) -> Iterator[str]:
    """The images in these values, each an image, a list or None."""
    for value in values:
        yield from value if isinstance(value, list) else [value] if value else []


def _gone(changed: Sequence[str], folder: Path) -> list[str]:
    """Stacks whose files a change removes; of the sandbox's nothing was rolled out."""
    kept = {*stack_names.stacks(folder), stack_names.SANDBOX}
    files = [Path(path).name for path in changed if Path(path).parent == Path(folder.name)]
    changed_stacks = {places.stack_of(name) for name in files if fnmatch(name, places.stack_file("*"))}
    return sorted(changed_stacks - kept)


def command(
    since: Since,
    results: Annotated[
        Path | None,
        typer.Option(
            help="Folder with what .github/scripts/keep leaves of make preview, and in its folder "
            "impact that of make impact FORMAT=json.",
            metavar="FOLDER",
        ),
    ] = None,
    run_address: Annotated[
        str, typer.Option("--run", help="Address of the pipeline's run.", metavar="URL")
    ] = "",
) -> None:
    """Report the effects of a pull request, as Markdown.

    The worst first: what is refused, what TrainJobs lose, what changes on which
    stack, which exceptions and privileges are new, and how the previews ended.
    At most 40 lines and 4,000 characters, with the rest folded below. Queries
    only git, and reads what a pipeline has kept. Exit code 2: it could not be written.

    Example: trainyard report --since origin/main --results results > report.md
    """
    raise typer.Exit(run(since, results=results, address=run_address))
