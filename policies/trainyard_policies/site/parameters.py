"""Parameters of the rules for all of your stacks: what one does not say itself is as it is here.

A key is a field of `trainyard_policies.parameters.Parameters`, such as
`"registries": ("registry.example.com", "docker.io")`.
"""

from collections.abc import Mapping
from typing import Any

PARAMETERS: Mapping[str, Any] = {}
