"""Kubernetes quantities: `500m`, `1.5Gi`, `2`, `12e6`.

Used to compare, add and print resources. Numbers are accepted
besides text, because the Kubeflow SDK sends `2.0`. The printed form is the
canonical one of `k8s.io/apimachinery/pkg/api/resource`: no fraction, the
largest suffix that needs none, in the notation that the value was given in.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from typing import Any, Final

NANO: Final = 10**9
_MAX: Final = (2**63 - 1) * NANO
_MAX_LENGTH: Final = 64
_MAX_EXPONENT: Final = 200
_REMEMBERED: Final = 4096
"""Size of the cache of parsed quantities: manifests repeat the same few."""

_PATTERN = re.compile(
    r"(?P<number>[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+))"
    r"(?:(?P<binary>[KMGTPE]i)|(?P<decimal>[numkMGTPE])|[eE](?P<exponent>[+-]?[0-9]+))?"
)
_DECIMAL: Final = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_DECIMAL_SUFFIX: Final = {power: suffix for suffix, power in _DECIMAL.items()}
_BINARY: Final = ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")


class Notation(StrEnum):
    """Notation in which a quantity was written and is printed."""

    DECIMAL = "DecimalSI"
    BINARY = "BinarySI"
    EXPONENT = "DecimalExponent"


@dataclass(frozen=True, slots=True)
class Quantity:
    """An exact amount in billionths, and the notation to print it in."""

    nano: int
    notation: Notation = Notation.DECIMAL

    def __str__(self) -> str:
        if self.nano == 0:
            return "0"
        whole, fraction = divmod(self.nano, NANO)
        if self.notation is Notation.BINARY and abs(self.nano) >= 1024 * NANO and fraction == 0:
            return _binary_text(whole)
        return _decimal_text(self.nano, self.notation)

    def __add__(self, other: Quantity) -> Quantity:
        return Quantity(self.nano + other.nano, self.notation if self.nano else other.notation)

    def times(self, factor: int) -> Quantity:
        """The amount taken `factor` times."""
        return Quantity(self.nano * factor, self.notation)

    def ceil(self) -> int:
        """The smallest whole number that is not less."""
        return -(-self.nano // NANO)


ZERO: Final = Quantity(0)


def parse(value: Any) -> Quantity:
    """Read a quantity given as int, float or text.

    Like the API server, it rounds what is finer than a billionth away from
    zero, and caps what exceeds 2^63-1.

    Raises `ValueError` when it is not a quantity.
    """
    return _parsed(_as_text(value))


@lru_cache(maxsize=_REMEMBERED)
def _parsed(text: str) -> Quantity:
    match = _PATTERN.fullmatch(text) if len(text) <= _MAX_LENGTH else None
    if match is None:
        raise ValueError(f"{text[:_MAX_LENGTH]!r} is not a quantity")
    number = match["number"]
    mantissa, power = _scaled(number.lstrip("+-"))
    if match["binary"]:
        notation, factor = Notation.BINARY, 1024 ** _BINARY.index(match["binary"])
    elif match["exponent"] is not None:
        notation, factor = Notation.EXPONENT, 1
        power += max(-_MAX_EXPONENT, min(_MAX_EXPONENT, int(match["exponent"])))
    else:
        notation, factor = Notation.DECIMAL, 1
        power += _DECIMAL[match["decimal"] or ""]
    nano = min(_MAX, _shifted_up(mantissa * factor, power + 9))
    return Quantity(-nano if number.startswith("-") else nano, notation)


def canonical(value: Any) -> str:
    """The quantity as the API server prints it; raises `ValueError` like `parse`."""
    return _canonical(_as_text(value))


@lru_cache(maxsize=_REMEMBERED)
def _canonical(text: str) -> str:
    return str(_parsed(text))


def _as_text(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(f"{type(value).__name__} is not a quantity")
    if isinstance(value, int):
        return str(max(-(2**63), min(2**63, value)))
    if not math.isfinite(value):
        raise ValueError(f"{value} is not a quantity")
    return repr(value)


def _scaled(number: str) -> tuple[int, int]:
    """`1.25` as (125, -2)."""
    whole, _, fraction = number.partition(".")
    return int((whole + fraction) or "0"), -len(fraction)


def _shifted_up(amount: int, power: int) -> int:
    """`amount * 10**power`, rounded up."""
    factor: int = 10 ** abs(power)
    return amount * factor if power >= 0 else -(-amount // factor)


def _decimal_text(nano: int, notation: Notation) -> str:
    amount, power = nano, -9
    while amount % 1000 == 0 and (notation is Notation.EXPONENT or power < 18):
        amount, power = amount // 1000, power + 3
    if notation is Notation.EXPONENT:
        return f"{amount}e{power}" if power else str(amount)
    return f"{amount}{_DECIMAL_SUFFIX[power]}"


def _binary_text(whole: int) -> str:
    step = 0
    while whole % 1024 == 0 and step < len(_BINARY) - 1:
        whole, step = whole // 1024, step + 1
    return f"{whole}{_BINARY[step]}"
