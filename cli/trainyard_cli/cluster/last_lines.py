"""Reads the kept last lines of a failed job, with the user's rights: docs/adr/0037."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from trainyard_assist.read import name, text, uid
from trainyard_kube.client import ApiError, Client, ForbiddenError, NotFoundError
from trainyard_kube.resources import CONFIGMAPS
from trainyard_operator.core.decide import last_lines
from trainyard_operator.core.decide.last_lines import Kept

from .patience import in_time

NOTHING: Final = (
    "nothing is kept: no attempt of it has failed, or no lines are kept in this namespace "
    "(operator.lastLines of the stack file)"
)


async def kept(client: Client, trainjob: Mapping[str, Any]) -> Kept | str:
    """The last lines of the TrainJob's last failed attempt, or why there are none to see."""
    config_map = last_lines.name_of(name(trainjob))
    path = CONFIGMAPS.path(text(trainjob, "metadata", "namespace"), config_map)
    try:
        live = await in_time(client.get(path))
    except NotFoundError:
        return NOTHING
    except ForbiddenError:
        return f"you are not allowed to get ConfigMap {config_map}"
    except ApiError as error:
        return str(error)
    if not last_lines.is_of(live, uid(trainjob)):
        return f"ConfigMap {config_map} is not this TrainJob's"
    return last_lines.read(live) or f"ConfigMap {config_map} cannot be read: somebody has changed it"
