"""Percentiles, medians, spreads and ratios of measurements. Pure."""

from __future__ import annotations

import statistics
from collections.abc import Collection, Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Figure:
    """One quantity over all rounds."""

    values: tuple[float, ...]

    @property
    def median(self) -> float:
        """The middle one."""
        return statistics.median(self.values)

    @property
    def low(self) -> float:
        """The least."""
        return min(self.values)

    @property
    def high(self) -> float:
        """The greatest."""
        return max(self.values)

    def __str__(self) -> str:
        text = shown(self.median)
        return text if len(self.values) == 1 else f"{text} ({shown(self.low)} to {shown(self.high)})"


def shown(value: float) -> str:
    """A number with three digits that matter, and no more."""
    if value == 0:
        return "0"
    if abs(value) >= 100:
        return f"{value:.0f}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.3g}"


def percentile(values: Collection[float], percent: float) -> float:
    """The value that `percent` of all do not exceed (nearest rank); raises ValueError without values."""
    if not values:
        raise ValueError("no values")
    ordered = sorted(values)
    rank = -(-len(ordered) * percent // 100)  # rounded up
    return ordered[max(0, int(rank) - 1)]


def together(rounds: Iterable[dict[str, float]]) -> dict[str, Figure]:
    """Quantities by name, each over the rounds that have it, in the order in which they first come."""
    series: dict[str, list[float]] = {}
    for measured in rounds:
        for name, value in measured.items():
            series.setdefault(name, []).append(value)
    return {name: Figure(tuple(values)) for name, values in series.items()}
