"""Bars with their spread as SVG: enough for documents, without a library. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from xml.sax.saxutils import escape

from .figures import Figure, shown

WIDTH, ROW, LEFT, TOP = 720, 34, 210, 40
_RIGHT = 90
_COLOURS = ("#2f6f4e", "#8a8f98", "#b9bdc4")
"""Ours, and the others."""


def bars(title: str, figures: Mapping[str, Figure], *, ours: int = 1) -> str:
    """One bar for each figure as long as its median, with a line from its least to its greatest value.

    The first `ours` of them have our colour.
    """
    height = TOP + ROW * len(figures) + 12
    most = max((figure.high for figure in figures.values()), default=0) or 1.0
    scale = (WIDTH - LEFT - _RIGHT) / most
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" '
        'font-family="sans-serif" font-size="14">',
        f'<rect width="{WIDTH}" height="{height}" fill="#ffffff"/>',
        f'<text x="16" y="24" font-weight="bold">{escape(title)}</text>',
    ]
    for number, (name, figure) in enumerate(figures.items()):
        colour = _COLOURS[min(max(0, number + 1 - ours), len(_COLOURS) - 1)]
        parts += _bar(name, figure, TOP + ROW * number, scale, colour)
    return "\n".join([*parts, "</svg>", ""])


def _bar(name: str, figure: Figure, top: float, scale: float, colour: str) -> list[str]:
    middle = top + ROW / 2
    low, high = (LEFT + value * scale for value in (figure.low, figure.high))
    length = figure.median * scale
    return [
        f'<text x="{LEFT - 10}" y="{middle + 5:g}" text-anchor="end">{escape(name)}</text>',
        f'<rect x="{LEFT}" y="{top + 6:g}" width="{length:.1f}" height="{ROW - 12}" fill="{colour}"/>',
        f'<path d="M{low:.1f} {middle:g}H{high:.1f}" stroke="#222222" stroke-width="1.5"/>',
        f'<text x="{high + 8:.1f}" y="{middle + 5:g}">{shown(figure.median)}</text>',
    ]
