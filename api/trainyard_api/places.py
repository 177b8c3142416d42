"""Where in a YAML text a field stands, so that an error about it can say `file:line`.

Called by whoever reads a file that people write. Computes on YAML's node
graph; reads no files.
"""

from __future__ import annotations

from collections.abc import Sequence

import yaml


def line_of(root: yaml.Node, field: Sequence[str | int] = ()) -> int:
    """The line, from 1, of a field below `root`, or of its nearest parent that is there."""
    node = root
    line = node.start_mark.line
    for step in field:
        found = _child(node, step)
        if found is None:
            break
        line, node = found
    return int(line) + 1


def _child(node: yaml.Node, step: str | int) -> tuple[int, yaml.Node] | None:
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            if key.value == step:
                return key.start_mark.line, value
    if isinstance(node, yaml.SequenceNode) and isinstance(step, int) and step < len(node.value):
        child = node.value[step]
        return child.start_mark.line, child
    return None
