"""Where things are: the data of this installation, and the site that a command works on."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.clones import clone_at
from trainyard_api import places
from trainyard_api.places import DATA, NoSiteError, PlaceError, Site

ROOT = Path(__file__).parents[2]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def site_at(folder: Path) -> Path:
    """A site that has only what is its own."""
    for name in ("stacks", "runtimes"):
        (folder / name).mkdir(parents=True)
    (folder / "Pulumi.yaml").write_text("name: acme\nruntime: python\nmain: program/\n")
    return folder


def test_in_a_clone_the_data_is_the_clone_and_its_catalog_is_whole() -> None:
    assert (DATA, places.SHIPPED.is_clone, places.SHIPPED.beneath) == (ROOT, True, None)
    assert places.shipped("sandbox/toolchain") == ROOT / "sandbox" / "toolchain"
    assert places.shipped("api/trainyard_api") == ROOT / "api" / "trainyard_api"


def test_in_a_wheel_packages_lie_beside_the_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(places, "_PACKAGES", tmp_path)
    monkeypatch.setattr(places, "DATA", tmp_path / "trainyard_data")
    for name in ("trainyard_api", "trainyard_data/runtimes"):
        (tmp_path / name).mkdir(parents=True)
    assert places.shipped("api/trainyard_api") == tmp_path / "trainyard_api"
    assert places.shipped("runtimes") == tmp_path / "trainyard_data" / "runtimes"
    with pytest.raises(PlaceError) as error:
        places.shipped("stacks")
    assert str(error.value) == (
        f"{tmp_path}/trainyard_data/stacks: is missing, so this installation of Trainyard is not whole; "
        "install it again from where it came, with pip install --force-reinstall"
    )


def test_the_site_is_found_upwards_from_the_current_folder(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    below = site_at(here / "acme") / "runtimes" / "torch"
    below.mkdir()
    monkeypatch.chdir(below)
    assert places.site() == Site(here / "acme")
    assert (places.site().is_clone, places.site().beneath) == (False, DATA / "runtimes")
    assert (places.shown(here / "acme" / "Pulumi.yaml"), places.shown(here)) == ("Pulumi.yaml", str(here))


def test_another_clone_is_worked_on_with_its_own_catalog(here: Path) -> None:
    clone_at(here)
    assert (places.site(), places.site().beneath) == (Site(here), None)


def nothing(here: Path) -> None:
    """No site at all."""


def of_another_program(here: Path) -> None:
    (here / "Pulumi.yaml").write_text("name: network\nruntime: go\n")


def two_in_one(here: Path) -> None:
    site_at(here)
    (here / "Pulumi.yml").write_text("name: b\n")


def one_in_the_other(here: Path) -> None:
    site_at(here)
    site_at(here / "inner")


@pytest.mark.parametrize(
    ("make", "kind", "sentence"),
    [
        (
            nothing,
            NoSiteError,
            "HERE/inner: is in no site, for neither it nor a folder above it has a Pulumi.yaml. Change into "
            "your site's folder, or make a site: trainyard init DIR",
        ),
        (
            of_another_program,
            NoSiteError,
            "HERE/Pulumi.yaml: is of another program, for there is no folder stacks beside it. Change into "
            "your site's folder, or make a site: trainyard init DIR",
        ),
        (
            two_in_one,
            PlaceError,
            "HERE: has Pulumi.yaml and Pulumi.yml; a folder is one site: remove one",
        ),
        (
            one_in_the_other,
            PlaceError,
            "HERE/inner: is a site inside the site HERE, and a repository has one; move one of them out",
        ),
    ],
)
def test_what_is_no_site_or_two_is_said_with_the_way_out(
    here: Path, make: Callable[[Path], None], kind: type[PlaceError], sentence: str
) -> None:
    make(here)
    (here / "inner").mkdir(exist_ok=True)
    with pytest.raises(kind) as error:
        places.site(here / "inner")
    assert (type(error.value), str(error.value).replace(str(here), "HERE")) == (kind, sentence)


def test_a_repository_inside_a_site_is_a_site_of_its_own(here: Path) -> None:
    site_at(here)
    inner = site_at(here / "inner")
    (inner / ".git").mkdir()
    assert places.site(inner) == Site(inner)


def test_without_a_site_what_is_shipped_takes_its_place_where_none_is_needed(here: Path) -> None:
    assert places.site_or_shipped() == places.SHIPPED
    assert places.home() == DATA


def test_a_sandbox_of_a_wheel_needs_a_site(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(places, "SHIPPED", Site(here / "site-packages" / "trainyard_data"))
    with pytest.raises(NoSiteError, match=re.escape(f"{here}: is in no site")):
        places.home()
    monkeypatch.chdir(site_at(here / "acme"))
    assert places.home() == here / "acme"


def written(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()


def test_a_runtime_of_the_site_replaces_the_shipped_one_of_its_name_in_whichever_folder(
    tmp_path: Path,
) -> None:
    for name in (
        "site/torch/a.yaml",
        "site/own/b.yaml",
        "ours/torch/a.yaml",
        "ours/jax/b.yaml",
        "ours/jax/c.yaml",
    ):
        written(tmp_path / name)
    written(tmp_path / "ours" / "images.yaml")
    files = places.catalog(tmp_path / "site", tmp_path / "ours")
    assert [str(path.relative_to(tmp_path)) for path in files] == [
        "ours/jax/c.yaml",
        "site/own/b.yaml",
        "site/torch/a.yaml",
    ]
    assert places.catalog(tmp_path / "site") == files[1:]
