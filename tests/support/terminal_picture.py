"""A picture of what a terminal shows, as SVG: one line of text for each line."""

import re
from html import escape
from typing import Final

_PROMPT: Final = "$ "
_MARK: Final = re.compile(r"\d{1,4} \|")
_BACKGROUND, _TEXT, _ACCENT, _DIMMED = "#0d1117", "#e6edf3", "#7ee787", "#8b949e"
_SIZE, _WIDTH, _LINE, _MARGIN = 14, 8.43, 20, 20
"""Pixels: of the letters, of one letter, of a line, around all of it."""


def svg(text: str, title: str) -> str:
    """The picture.

    Args:
        text: What is shown. A line that begins with `$ ` is a command, one with `0 |` a line of a rank.
        title: What the picture shows, for those who do not see it.
    """
    lines = text.splitlines()
    width = round(max(map(len, lines)) * _WIDTH) + 2 * _MARGIN
    height = len(lines) * _LINE + 2 * _MARGIN
    rows = [_row(line, _MARGIN + (number + 1) * _LINE - 5) for number, line in enumerate(lines) if line]
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img">',
            f"<title>{escape(title)}</title>",
            f'<rect width="{width}" height="{height}" rx="8" fill="{_BACKGROUND}"/>',
            f'<g font-family="ui-monospace, SFMono-Regular, Menlo, Consolas, monospace" font-size="{_SIZE}" '
            f'fill="{_TEXT}">',
            *rows,
            "</g>",
            "</svg>\n",
        ]
    )


def _row(line: str, y: int) -> str:
    # Letters are as wide as they are here, whatever the font.
    length = f'textLength="{len(line) * _WIDTH:.0f}" lengthAdjust="spacingAndGlyphs"'
    return f'<text x="{_MARGIN}" y="{y}" xml:space="preserve" {length}>{_coloured(line)}</text>'


def _coloured(line: str) -> str:
    if line.startswith(_PROMPT):
        return f'<tspan fill="{_ACCENT}">$</tspan>{escape(line[1:])}'
    if mark := _MARK.match(line):
        return f'<tspan fill="{_DIMMED}">{escape(mark[0])}</tspan>{escape(line[mark.end() :])}'
    return escape(line)
