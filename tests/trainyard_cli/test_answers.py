"""An error ends a command with its exit code and its text, and is caught in one place."""

import errno
from pathlib import Path

import pytest

from tests.support.answers import answered
from trainyard_api.documents import START, DocumentError
from trainyard_api.errors import UserError
from trainyard_assist.render import NothingToRenderError, RenderError
from trainyard_kube.client import ApiError, NotFoundError
from trainyard_kube.credentials import CredentialsError
from trainyard_platform.stack.settings import InvalidStackError
from trainyard_policies.lint.files import CannotLintError
from trainyard_sandbox.errors import SandboxError


@pytest.mark.parametrize(
    ("error", "answer"),
    [
        (UserError("no"), (2, "", "no\n")),
        (
            ApiError("no\x1b[2J\nprod: 0 to change", code=403, reason="Forbidden"),
            (2, "", "403 Forbidden: no prod: 0 to change\n"),
        ),
        (NotFoundError("gone"), (2, "", "gone\n")),
        (CredentialsError("config:\tno\nuser"), (2, "", "config: no user\n")),
        (DocumentError("f.yaml", START, "not YAML"), (2, "", "f.yaml:1:1: not YAML\n")),
        (
            InvalidStackError("prod", ["a: no", "b: no"]),
            (2, "", "stacks/Pulumi.prod.yaml is not valid:\n  a: no\n  b: no\n"),
        ),
        (CannotLintError("git cannot be run"), (2, "", "git cannot be run\n")),
        (SandboxError("not up"), (2, "", "not up\n")),
        (RenderError("no runtime"), (1, "", "no runtime\n")),
        (NothingToRenderError("no TrainJob"), (2, "", "no TrainJob\n")),
    ],
    ids=lambda value: type(value).__name__,
)
def test_an_error_is_its_text_and_its_exit_code(error: UserError, answer: tuple[int, str, str]) -> None:
    def command() -> int:
        raise error

    assert answered(command) == answer


def test_a_file_that_cannot_be_used_is_one_line_with_its_path_and_the_reason() -> None:
    too_long = "x" * 300
    assert answered(Path(too_long).stat) == (2, "", f"{too_long}: File name too long\n")


@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        (OSError(errno.ENOSPC, "No space left on device"), "No space left on device"),
        (OSError(errno.EDQUOT, "Disk quota exceeded", "/data/x"), "/data/x: Disk quota exceeded"),
    ],
    ids=["a write, which knows no file", "a quota"],
)
def test_a_full_disk_is_one_line_with_the_way_out(error: OSError, sentence: str) -> None:
    def command() -> int:
        raise error

    way_out = "make room (`df -h` and `quota` show where), then run it again"
    assert answered(command) == (2, "", f"{sentence}: {way_out}\n")


@pytest.mark.parametrize(
    "error",
    [
        ZeroDivisionError(),
        OSError(errno.ECONNREFUSED, "Connection refused"),
        BrokenPipeError(errno.EPIPE, "Broken pipe", "pipe"),
    ],
    ids=["a mistake in the code", "without a file", "a reader that has gone"],
)
def test_what_is_no_error_of_a_user_is_not_hidden(error: Exception) -> None:
    def command() -> int:
        raise error

    with pytest.raises(type(error)):
        answered(command)
