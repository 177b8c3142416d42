"""Where things are: what comes with Trainyard besides its packages, and the site that a command works on.

Trainyard is installed in one of two ways. In a clone, packages and data are
folders of the clone. In a wheel, the packages are in `site-packages`, and the
data is beside them, in one folder. Either way the site is found from the
current folder, never from the place that Trainyard was installed from.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from .errors import UserError

_PACKAGES: Final = Path(__file__).resolve().parents[1]
_IN_A_WHEEL: Final = _PACKAGES / "trainyard_data"
DATA: Final = _IN_A_WHEEL if _IN_A_WHEEL.is_dir() else _PACKAGES.parent
"""The folder with what comes with Trainyard: the clone, or that of the wheel (pyproject.toml lists it)."""

PROJECT_FILE: Final = "Pulumi.yaml"
_OTHER_FORMS: Final = ("Pulumi.yml", "Pulumi.json")
"""Names that Pulumi accepts as well."""
_RUNTIMES: Final = "*/*.yaml"
_OURS: Final = "platform/trainyard_platform"
"""What only a clone of Trainyard has."""
GONE: Final = "The current folder was deleted: change into one that is there"
"""The error where the current folder has no path any more."""


class PlaceError(UserError):
    """Something is not where it has to be; the message says where, and the way out."""


class NoSiteError(PlaceError):
    """The current folder is in no site."""


@dataclass(frozen=True, slots=True)
class Site:
    """The files of a site: a clone of Trainyard, or a repository that has only what is the site's own."""

    root: Path
    """The folder of `Pulumi.yaml`."""

    @property
    def stacks(self) -> Path:
        """The folder of the stack files."""
        return self.root / "stacks"

    @property
    def runtimes(self) -> Path:
        """The folder of the site's runtimes, one folder for each framework."""
        return self.root / "runtimes"

    @property
    def catalog(self) -> list[Path]:
        """The files of its catalog: its own runtimes, and those beneath that have no namesake among them."""
        return catalog(self.runtimes, self.beneath)

    @property
    def policies(self) -> Path:
        """The folder of the policy pack, which Pulumi runs."""
        return self.root / "policies"

    @property
    def is_clone(self) -> bool:
        """Whether it is a clone of Trainyard, and so has a catalog and packages of its own."""
        return (self.root / _OURS).is_dir()

    @property
    def beneath(self) -> Path | None:
        """The catalog that the site's runtimes come on top of; None for a clone, whose own is whole."""
        return None if self.root == DATA or self.is_clone else DATA / "runtimes"


SHIPPED: Final = Site(DATA)
"""What comes with Trainyard, in place of a site where a command needs none."""


def shipped(path: str) -> Path:
    """Where the file or folder is that has this path in a clone.

    Raises:
        PlaceError: This installation lacks it.
    """
    place = DATA / path
    package = _PACKAGES / Path(path).name
    if not place.exists() and Path(path).name.startswith("trainyard_") and package.is_dir():
        return package
    if not place.exists():
        raise PlaceError(
            f"{place}: is missing, so this installation of Trainyard is not whole; install it again "
            "from where it came, with pip install --force-reinstall"
        )
    return place


def site(folder: Path | None = None) -> Site:
    """The site of a folder: the nearest folder upwards that has a `Pulumi.yaml`, as Pulumi looks for it.

    Args:
        folder: Where to begin; None: the current folder.

    Raises:
        NoSiteError: There is none.
        PlaceError: There are two: in one folder, or one inside the other in the same repository.
    """
    start = (folder or _here()).resolve()
    projects = list(_projects(start))
    if not projects:
        raise NoSiteError(
            f"{start}: is in no site, for neither it nor a folder above it has a {PROJECT_FILE}. Change into "
            "your site's folder, or make a site: trainyard init DIR"
        )
    nearest, *above = projects
    if twins := [name for name in _OTHER_FORMS if (nearest / name).exists()]:
        raise PlaceError(f"{nearest}: has {PROJECT_FILE} and {twins[0]}; a folder is one site: remove one")
    if not _is_site(nearest):
        raise NoSiteError(
            f"{nearest / PROJECT_FILE}: is of another program, for there is no folder stacks beside it. "
            "Change into your site's folder, or make a site: trainyard init DIR"
        )
    if outer := next(filter(_is_site, above), None):
        raise PlaceError(
            f"{nearest}: is a site inside the site {outer}, and a repository has one; move one of them out"
        )
    return Site(nearest)


def site_or_shipped() -> Site:
    """The site of the current folder; outside of one, what comes with Trainyard. Raises as `site` for two."""
    try:
        return site()
    except NoSiteError:
        return SHIPPED


def stack_file(stack: str) -> str:
    """The name of the file in which Pulumi looks for a stack; of `*`, the pattern of these names."""
    return f"Pulumi.{stack}.yaml"


def stack_of(file: str) -> str:
    """The stack whose file has this name."""
    return file.removeprefix("Pulumi.").removesuffix(".yaml")


def catalog(folder: Path, beneath: Path | None = None) -> list[Path]:
    """The files of a catalog, `<framework>/<name>.yaml`, sorted.

    Args:
        folder: The catalog, or a site's part of it.
        beneath: The catalog that the site's comes on top of. Of that one, a file counts unless the site has
            one of the same name, in whichever folder.
    """
    own = list(folder.glob(_RUNTIMES))
    replaced = {path.stem for path in own}
    others = () if beneath is None else beneath.glob(_RUNTIMES)
    either = [*own, *(path for path in others if path.stem not in replaced)]
    return sorted(either, key=lambda path: path.parts[-2:])


def home() -> Path:
    """The folder that has this user's sandboxes: the site, or outside of one the clone that this runs from.

    Raises:
        PlaceError: As `site`, where this runs from a wheel.
    """
    try:
        return site().root
    except NoSiteError:
        if SHIPPED.is_clone:
            return DATA
        raise


def shown(path: Path) -> str:
    """A path as its user would write it: relative to the site or else the current folder, if it is inside."""
    roots = [Path.cwd()]
    with suppress(PlaceError):
        roots.insert(0, site().root)
    inside = (path.relative_to(root) for root in roots if path.is_relative_to(root))
    return str(next(inside, path))


def _here() -> Path:
    try:
        return Path.cwd()
    except FileNotFoundError as error:
        raise NoSiteError(GONE) from error


def _projects(start: Path) -> Iterator[Path]:
    """The folders with a `Pulumi.yaml`, upwards to the root of the repository that the first is in."""
    for folder in (start, *start.parents):
        if (folder / PROJECT_FILE).is_file():
            yield folder
        if (folder / ".git").exists():
            return


def _is_site(folder: Path) -> bool:
    return (folder / "stacks").is_dir()
