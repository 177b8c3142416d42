"""Types of unchecked JSON and YAML."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Json = Mapping[str, Any]
"""An object that is only read."""
JsonValue = Any
"""Any value: an object, a list, a text, a number, a truth value or null."""
Manifest = dict[str, Any]
"""A manifest under construction."""
