"""Output of a roll-out whose reader has gone."""

import errno
import io

import pytest

from trainyard_cli.commands.rollout_output import Lasting, raise_if_lost


class Fragile(io.StringIO):
    """A stream that fails while there is an error."""

    error: OSError | None = None

    def write(self, text: str) -> int:
        if self.error is not None:
            raise self.error
        return super().write(text)

    def flush(self) -> None:
        if self.error is not None:
            raise self.error


@pytest.mark.parametrize(
    "error", [BrokenPipeError(), OSError(errno.EIO, "Input/output error")], ids=["a reader", "a terminal"]
)
@pytest.mark.parametrize("flush", [False, True])
def test_output_that_has_lost_its_reader_is_dropped_from_then_on(error: OSError, flush: bool) -> None:
    stream = Fragile()
    lasting = Lasting(stream)
    print("before", file=lasting.text, flush=True)
    raise_if_lost(lasting)
    stream.error = error
    if flush:
        lasting.flush()
    else:
        lasting.write("lost")
    stream.error = None
    print("after", file=lasting.text, flush=True)
    assert (lasting.lost, stream.getvalue()) == (True, "before\n")
    with pytest.raises(BrokenPipeError):
        raise_if_lost(lasting)
