"""The text of a new file of the catalog, made from an existing one.

What a framework needs is already in the catalog: a new runtime starts as a
copy, with a name, a purpose and an image of its own.
"""

import re
from collections.abc import Collection

from trainyard_api import documents, names

from . import header as headers
from . import overlay
from .files import Runtime

_ABOUT = "For those who need it as it is here: say who they are, and what they have to know."


def text(
    source: Runtime,
    source_text: str,
    *,
    name: str,
    framework: str,
    purpose: str,
    image: str | None = None,
    without: Collection[str] = (),
) -> str:
    """The file of the new runtime.

    Args:
        source: The runtime to copy.
        source_text: Its file.
        name: Name of the new runtime, which is its file's too.
        framework: Its framework, which is its folder's name too.
        purpose: What it is for, in a sentence.
        image: Image of the containers that train, and of others with the same one; the source's if left out.
        without: Keys of the source's annotations that the new runtime does not get.
    """
    header = headers.parse(source_text)
    body = _replaced(headers.body(source_text), "  name: ", source.name, name)
    body = _replaced(body, "    trainer.kubeflow.org/framework: ", source.framework, framework)
    example = _replaced(header.example, "    name: ", source.name, name)
    if image is not None:
        body = _with_image(body, image)
        example = re.sub(r"^( +image: ).*$", rf"\g<1>{image}", example, flags=re.MULTILINE)
    # What is going away is the copied one.
    for key in (*without, names.SUPPORT_LABEL):
        body = re.sub(rf"^    {re.escape(key)}:.*\n(?:     .*\n)*", "", body, flags=re.MULTILINE)
    # It has become empty.
    body = re.sub(r"^  annotations:\n(?!    )", "", body, flags=re.MULTILINE)
    sentence = " ".join(purpose.split()).rstrip(".") + "."
    lines = [sentence, "", _ABOUT, "", *(f"  {line}" for line in example.splitlines())]
    return "\n".join([headers.SCHEMA, "#", *(f"# {line}".rstrip() for line in lines), body])


def _replaced(body: str, before: str, old: str, new: str) -> str:
    line = re.compile(rf"^({before}){re.escape(old)}$", re.MULTILINE)
    return line.sub(lambda match: f"{match[1]}{new}", body)


def _with_image(body: str, image: str) -> str:
    """The body with this image wherever a stack would change it."""
    [document] = documents.parse(body, "runtime")
    lines = body.split("\n")
    for path, _ in overlay.of_trainers_image(document.value):
        line = document.position((*path, "image")).line - 1
        lines[line] = re.sub(r"(\bimage: ).*", rf"\g<1>{image}", lines[line])
    return "\n".join(lines)
