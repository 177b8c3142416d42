"""A site's stack file."""

from . import program

GUIDE = program.ROOT / "docs" / "site.md"


def stack_file() -> str:
    """The stack file as the guide has it."""
    return GUIDE.read_text(encoding="utf-8").partition("```yaml\n")[2].partition("```\n")[0]
