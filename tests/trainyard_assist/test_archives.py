"""Archives of strangers: what is in them, and where it may go."""

from __future__ import annotations

import io
import tarfile
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainyard_api.errors import UserError
from trainyard_assist.archives import Kind, Member, Reader, below

LONG = "a/" * 120 + "name"
FORMATS = (tarfile.GNU_FORMAT, tarfile.PAX_FORMAT, tarfile.USTAR_FORMAT)


def archive(*members: tuple[tarfile.TarInfo, bytes], form: int = tarfile.GNU_FORMAT) -> bytes:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w", format=form) as tar:
        for info, content in members:
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    return file.getvalue()


def info(name: str, kind: bytes = tarfile.REGTYPE, *, target: str = "", mode: int = 0o644) -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.type, member.linkname, member.mode = kind, target, mode
    return member


def read(whole: bytes, piece: int = 1_000_000) -> list[Member | bytes]:
    """What a reader gives, pieces of content joined."""
    reader, parts = Reader(), []
    for at in range(0, len(whole), piece):
        for part in reader.feed(whole[at : at + piece]):
            if isinstance(part, bytes) and parts and isinstance(parts[-1], bytes):
                parts[-1] += part
            else:
                parts.append(part)
    assert reader.is_whole
    return parts


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("piece", [1, 511, 1_000_000])
def test_members_come_in_order_each_file_before_its_content(form: int, piece: int) -> None:
    whole = archive(
        (info("m", tarfile.DIRTYPE), b""),
        (info("m/run", mode=0o755), b"x" * 700),
        (info("m/empty"), b""),
        (info("m/other", tarfile.LNKTYPE, target="m/run"), b""),
        (info("m/link", tarfile.SYMTYPE, target="/etc/passwd"), b""),
        form=form,
    )
    assert read(whole, piece) == [
        Member("m", Kind.FOLDER),
        Member("m/run", Kind.FILE, 700, is_executable=True),
        b"x" * 700,
        Member("m/empty", Kind.FILE),
        Member("m/other", Kind.HARD_LINK, target="m/run"),
        Member("m/link", Kind.OTHER),
    ]


@pytest.mark.parametrize("form", [tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
@pytest.mark.parametrize("name", [LONG, "ünïcode-é", "x" * 200])
def test_a_name_may_be_long_and_in_any_language(form: int, name: str) -> None:
    whole = archive((info(name), b"1"), (info("y", tarfile.LNKTYPE, target=name), b""), form=form)
    assert read(whole) == [
        Member(name, Kind.FILE, 1),
        b"1",
        Member("y", Kind.HARD_LINK, target=name),
    ]


def test_a_device_a_pipe_and_an_unknown_member_are_others_and_their_content_is_skipped() -> None:
    kinds = (tarfile.CHRTYPE, tarfile.BLKTYPE, tarfile.FIFOTYPE)
    whole = archive(
        *((info("d", kind), b"") for kind in kinds), (info("z", b"Z"), b"?" * 600), (info("a"), b"1")
    )
    assert read(whole) == [
        *[Member("d", Kind.OTHER)] * 3,
        Member("z", Kind.OTHER),
        Member("a", Kind.FILE, 1),
        b"1",
    ]


def test_an_archive_is_whole_only_with_its_end() -> None:
    whole = archive((info("a"), b"1" * 600))
    reader = Reader()
    assert list(reader.feed(whole[:900])) == [Member("a", Kind.FILE, 600), b"1" * 388]
    assert not reader.is_whole
    list(reader.feed(whole[900:]))
    assert reader.is_whole
    assert list(reader.feed(b"what follows counts for nothing")) == []


def pax(attributes: bytes) -> bytes:
    header = info("p", tarfile.XHDTYPE)
    header.size = len(attributes)
    return header.tobuf() + attributes + bytes(-len(attributes) % 512) + info("a").tobuf()


def with_size(size: int, kind: bytes = tarfile.REGTYPE) -> bytes:
    header = info("a", kind)
    header.size = size
    return header.tobuf(tarfile.GNU_FORMAT)


@pytest.mark.parametrize(
    ("whole", "words"),
    [
        (b"bash: tar: no such thing".ljust(512), "is not an archive"),
        (with_size(2**40, tarfile.GNUTYPE_LONGNAME), "has a name of 1099511627776 bytes"),
        (with_size(2**40, tarfile.XHDTYPE), "has a name of 1099511627776 bytes"),
        (with_size(-5), "an invalid size: a"),
        (with_size(5, tarfile.GNUTYPE_SPARSE), "an invalid size: a"),
        (pax(b"22 GNU.sparse.major=1\n"), "an invalid size: a"),
        (pax(b"11 size=-50\n"), "bad pax header"),
        (pax(b"13 size=-500\n"), "an invalid size: a"),
        (pax(b"30 size=99999999999999999999\n"), "bad pax header"),
        (pax(b"99 path=x\n"), "bad pax header"),
        (pax(b"0 path=x\n"), "bad pax header"),
        (pax(b"path=x\n"), "bad pax header"),
    ],
)
def test_what_no_tar_would_send_is_refused(whole: bytes, words: str) -> None:
    with pytest.raises(UserError, match=words):
        list(Reader().feed(whole))


def test_of_what_is_said_of_a_member_only_what_is_used_is_kept() -> None:
    reader = Reader()
    for number in range(100):
        text = f" a{number}={'x' * 900}\n"
        list(reader.feed(pax(f"{len(text) + 3}{text}".encode())[:-512]))
    list(reader.feed(pax(b"15 path=a-name\n")[:-512]))
    assert reader._long == {"path": "a-name"}
    assert list(reader.feed(info("a").tobuf())) == [Member("a-name", Kind.FILE)]


@given(st.binary(max_size=3000), st.integers(0, 4000))
def test_whatever_comes_there_is_an_answer_or_a_sentence(junk: bytes, at: int) -> None:
    whole = archive((info("a"), b"1" * 600), (info(LONG), b"2"), form=tarfile.PAX_FORMAT)
    with suppress(UserError):
        list(Reader().feed(whole[:at] + junk + whole[at:]))


@pytest.mark.parametrize(
    ("name", "base", "parts"),
    [
        ("m", "m", ()),
        ("m/", "m", ()),
        ("m/a/b", "m", ("a", "b")),
        ("./a//b/", ".", ("a", "b")),
        (".", ".", ()),
    ],
)
def test_a_member_is_below_what_was_asked_for(name: str, base: str, parts: tuple[str, ...]) -> None:
    assert below(name, base) == parts


@pytest.mark.parametrize("name", ["/etc/passwd", "m/../../x", "..", "other", "mm/x", "", "m/\0", "/m/a"])
def test_a_name_that_leads_elsewhere_is_refused(name: str) -> None:
    with pytest.raises(UserError, match=r"^what tar sent leads out of the target"):
        below(name, "m")
