"""A connection brings a small head, the body that it announces, and then nothing until it is answered."""

from __future__ import annotations

import pytest

from trainyard_operator.serve.framing import MOST, Framing

GET = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"
POST = b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nbody"


@pytest.mark.parametrize("piece", [1, 3, 10_000])
@pytest.mark.parametrize("request_", [GET, POST, b"\r\n\r\n" + POST])
def test_requests_are_taken_one_after_the_other_in_pieces_of_any_size(request_: bytes, piece: int) -> None:
    framing = Framing()
    for _ in range(3):
        assert all(framing.takes(request_[begin : begin + piece]) for begin in range(0, len(request_), piece))
        framing.answered()


def headers(size: int) -> bytes:
    """The beginning of a request with so many bytes, of which no header is large."""
    line = b"X-Y: " + 100 * b"z" + b"\r\n"
    return (b"GET / HTTP/1.1\r\n" + line * (size // len(line) + 1))[:size]


@pytest.mark.parametrize(
    "pieces",
    [
        pytest.param([headers(MOST + 1)], id="a large head that has no end"),
        pytest.param([headers(MOST + 1) + b"\r\n\r\n"], id="a large head"),
        pytest.param([headers(MOST), b"a"], id="a large head in pieces"),
        pytest.param([b"\r\n\r\n", headers(MOST + 1)], id="a large head after empty lines"),
        pytest.param([GET + GET], id="the next request at once"),
        pytest.param([POST, b"G"], id="the next request before the answer"),
        pytest.param(
            [b"POST / HTTP/1.1\r\nTransfer-Encoding : chunked\r\n\r\n"], id="a body of unknown length"
        ),
        pytest.param([b"GET / HTTP/1.1\r\nupgrade: websocket\r\n\r\n"], id="another protocol"),
    ],
)
def test_what_may_need_much_memory_is_not_taken(pieces: list[bytes]) -> None:
    framing = Framing()
    assert [framing.takes(piece) for piece in pieces] == [True] * (len(pieces) - 1) + [False]


def test_after_an_answer_in_the_middle_of_a_body_no_request_is_taken() -> None:
    framing = Framing()
    assert framing.takes(POST[:-2])
    framing.answered()
    assert framing.takes(POST[-2:])
    assert not framing.takes(GET)
