"""Parameters of the rules for all of your stacks: the values for what a stack does not set itself.

A key is a field of `trainyard_policies.parameters.Parameters`, such as
`"registries": ("registry.example.com", "docker.io")`.
"""

from collections.abc import Mapping
from typing import Any

PARAMETERS: Mapping[str, Any] = {}
