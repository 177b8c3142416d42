"""Images are rebuilt only when what goes into them has changed."""

import json
import subprocess
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from trainyard_api import places
from trainyard_sandbox import images
from trainyard_sandbox.estimate import Kind, Part
from trainyard_sandbox.images import Base, Image, Images, Store
from trainyard_sandbox.progress import Progress
from trainyard_sandbox.toolchain import Toolchain

BASES: Mapping[str, Base] = {"debian": Base("debian", "bookworm", ["python3"])}


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(places, "DATA", tmp_path)
    (tmp_path / "Dockerfile").write_text("FROM scratch\n")
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "a.py").write_text("1")
    (tmp_path / "locked.txt").write_text("x==1")
    return tmp_path


def test_a_key_changes_with_every_input_and_with_nothing_else(project: Path) -> None:
    toolchain = Toolchain([])
    image = Image("i", "t:1", "Dockerfile", base="debian", files=["code"], wheels="locked.txt")
    seen = [image.key(BASES, toolchain)]

    (project / "code" / "__pycache__").mkdir()
    (project / "code" / "__pycache__" / "a.pyc").write_text("compiled")
    (project / "unrelated").write_text("x")
    assert image.key(BASES, toolchain) == seen[0]

    for path in ("Dockerfile", "code/a.py", "locked.txt"):
        (project / path).write_text("changed")
        seen.append(image.key(BASES, toolchain))
    seen.append(image.key({"debian": replace(BASES["debian"], packages=["python3", "bash"])}, toolchain))
    seen.append(replace(image, tag="t:2").key(BASES, toolchain))
    assert len(set(seen)) == len(seen)


def test_an_image_on_another_changes_with_it_and_gets_wheels_for_its_python(project: Path) -> None:
    base = replace(BASES["debian"], python="3.13")
    under = Image("under", "u:1", "Dockerfile", base="debian")
    upon = Image("upon", "o:1", "Dockerfile", base="under", wheels="locked.txt")
    toolchain = Toolchain([])

    def seen(base: Base, under: Image) -> tuple[str, str]:
        bases: dict[str, Base | Image] = {"debian": base, "under": under}
        return upon.key(bases, toolchain), upon.python(bases)

    before, python = seen(base, under)
    assert python == "3.13"
    assert seen(replace(base, suite="trixie"), under)[0] != before
    assert seen(base, replace(under, tag="u:2"))[0] != before


def test_packages_come_as_wheels_for_the_images_python_but_for_those_of_which_there_is_only_the_source(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commands: list[list[str]] = []
    monkeypatch.setattr(images, "run_logged", lambda command, *_, **__: commands.append(command))
    image = Image("i", "i:1", "Dockerfile", base="debian", wheels="locked.txt", sources=["deepspeed"])
    image.fill(project / "code", {"debian": replace(BASES["debian"], python="3.13")}, Toolchain([]), project)
    [command] = commands
    assert command[command.index("--only-binary") :][:5] == [
        *("--only-binary", ":all:", "--no-binary=deepspeed"),
        *("--python-version", "3.13"),
    ]


def test_what_an_image_is_built_on_is_work_that_is_left_unless_it_is_there(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRAINYARD_CACHE", str(project / "cache"))
    under = Image("under", "u:1", "Dockerfile", base="debian", seconds=10.0)
    upon = Image("upon", "o:1", "Dockerfile", base="under", seconds=20.0)
    bases: dict[str, Base | Image] = {"debian": replace(BASES["debian"], seconds=40.0), "under": under}
    listed = Images(Toolchain([]), bases, [upon])
    built = {part.name: part.seconds for part in listed.parts() if part.kind is Kind.BUILD}
    assert built == {"base debian": 40.0, "image under": 10.0, "image upon": 20.0}
    archive = project / "cache" / under.piece(under.key(bases, listed.toolchain))
    archive.parent.mkdir(parents=True)
    archive.touch()
    assert [part.name for part in listed.parts() if part.kind is Kind.BUILD] == ["image upon"]


def test_what_holds_nothing_of_the_toolchain_is_built_before_there_is_one(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    built = []
    monkeypatch.setenv("TRAINYARD_CACHE", str(project / "cache"))
    monkeypatch.setattr(Images, "_archive", lambda self, image, key, progress: built.append(image.name))
    alone = Image("alone", "alone:1", "Dockerfile", files=["code"])
    with_binary = Image("with-binary", "with-binary:1", "Dockerfile", binaries=["kubectl"])
    with_artifact = Image("with-artifact", "with-artifact:1", "Dockerfile", artifacts=["a"])
    listed = Images(Toolchain([]), BASES, [with_binary, alone, with_artifact])
    with Progress() as progress:
        listed.build_ahead(progress)
    assert built == ["alone"]


def test_every_image_of_the_sandbox_has_a_dockerfile_and_a_known_base() -> None:
    listed = Images.read(Toolchain([]))
    assert {image.name for image in listed.images} == {
        *("pause", "busybox", "jobset", "kueue", "operator", "initializers"),
        *("volcano-scheduler", "volcano-controller-manager", "volcano-webhook-manager"),
        *("scheduler-plugins-scheduler", "scheduler-plugins-controller"),
        *("torch-cpu", "trainers", "mpi", "deepspeed", "jax-xgboost", "tensorflow", "paddle", "lightgbm"),
        *("lws", "data-cache"),
    }
    assert [i.name for i in listed.images if not i.dockerfile_path.exists()] == []
    assert {image.base for image in listed.images} <= {None, *listed.bases}


def test_python_does_not_go_by_the_time_of_what_a_stage_compiles_for_another() -> None:
    texts = {image.name: image.dockerfile_path.read_text() for image in Images.read(Toolchain([])).images}
    compiled = {name for name, text in texts.items() if "--from=build" in text and "pip install" in text}
    assert compiled >= {"operator", "mpi"}
    assert [name for name in compiled if "\nENV SOURCE_DATE_EPOCH=" not in texts[name]] == []


def test_what_another_checkout_has_put_in_the_place_of_an_image_is_put_right_before_it_is_copied(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRAINYARD_CACHE", str(tmp_path / "cache"))
    image = tmp_path / "store" / "root" / "image"
    image.parent.mkdir(parents=True)

    def unpack() -> None:
        image.write_text("ours")

    store = Store(tmp_path / "store", unpack)
    image.write_text("theirs")
    store.clone(tmp_path / "copy")
    assert (tmp_path / "copy" / "image").read_text() == "ours"


def test_an_image_whose_import_was_interrupted_is_in_the_store_under_no_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setenv("TRAINYARD_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(subprocess, "Popen", interrupted)
    store = Store(tmp_path / "store")
    store.folder.mkdir()
    (store.folder / "keys.json").write_text(json.dumps({"a:1": "old", "b:1": "other"}))
    with pytest.raises(KeyboardInterrupt):
        store.load({"a:1": tmp_path / "a.tar"}, {"a:1": "new", "b:1": "other"})
    assert store.keys() == {"b:1": "other"}


def test_a_copy_of_the_store_has_its_own_databases_and_shares_what_is_in_images(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRAINYARD_CACHE", str(tmp_path / "cache"))
    root = tmp_path / "store" / "root"
    database = root / "io.containerd.metadata.v1.bolt" / "meta.db"
    layer = root / "io.containerd.snapshotter.v1.overlayfs" / "snapshots" / "1" / "fs"
    for folder in (database.parent, layer):
        folder.mkdir(parents=True)
    database.write_text("images")
    (layer / "proj.db").write_text("maps")
    (layer / "wtmp.db").symlink_to("/nowhere/wtmp.db")
    copy = tmp_path / "copy"
    Store(tmp_path / "store", lambda: None).clone(copy)
    files = {str(path.relative_to(copy)): path for path in copy.rglob("*.db")}
    assert {
        name: "a link" if file.is_symlink() else file.samefile(root / name) for name, file in files.items()
    } == {
        "io.containerd.metadata.v1.bolt/meta.db": False,
        "io.containerd.snapshotter.v1.overlayfs/snapshots/1/fs/proj.db": True,
        "io.containerd.snapshotter.v1.overlayfs/snapshots/1/fs/wtmp.db": "a link",
    }


def test_the_work_that_is_left_is_what_neither_the_store_nor_the_cache_nor_a_bundle_has(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRAINYARD_CACHE", str(project / "cache"))
    monkeypatch.setattr(
        images, "sizes", lambda paths: {path: 20_000_000 for path in paths if path.startswith("images/c-")}
    )
    bases = {"debian": replace(BASES["debian"], seconds=40.0)}
    made = Image("a", "a:1", "Dockerfile", base="debian", seconds=10.0)
    coming = Image("b", "b:1", "Dockerfile", binaries=["pause"], seconds=20.0)
    bundled = Image("c", "c:1", "Dockerfile", seconds=10.0)
    listed = Images(Toolchain([]), bases, [made, coming, bundled])
    assert listed.parts() == [
        Part("base debian", Kind.BUILD, 40.0),
        Part("image a", Kind.BUILD, 10.0),
        Part("image b", Kind.BUILD, 20.0),
        Part(bundled.piece(bundled.key(bases, listed.toolchain)), Kind.FETCH, 2.0),
        Part("unpack", Kind.FINISH, 68.0),
    ]
    for archive in (bases["debian"].piece(), made.piece(made.key(bases, listed.toolchain))):
        (project / "cache" / archive).parent.mkdir(parents=True, exist_ok=True)
        (project / "cache" / archive).touch()
    assert [part.name for part in listed.parts() if part.kind is Kind.BUILD] == ["image b"]
    (project / "cache" / "store").mkdir()
    keys = {image.tag: image.key(bases, listed.toolchain) for image in (made, bundled)}
    (project / "cache" / "store" / "keys.json").write_text(json.dumps(keys))
    assert listed.parts() == [Part("image b", Kind.BUILD, 20.0), Part("unpack", Kind.FINISH, 34.0)]


def test_an_older_archive_of_an_image_goes_and_that_of_one_with_a_longer_name_stays(tmp_path: Path) -> None:
    older, newer, other = (
        tmp_path / f"{name}.tar" for name in (f"mpi-{16 * 'a'}", f"mpi-{16 * 'b'}", f"mpi-gpu-{16 * 'c'}")
    )
    for archive in (older, newer, other):
        archive.touch()
    images._forget_older(newer, "mpi")
    assert sorted(tmp_path.iterdir()) == [newer, other]
