"""Annotations that say how the provider, or Helm, treats an object: pure."""

from typing import Final

from trainyard_api import names

FORCE: Final = {"pulumi.com/patchForce": "true"}
"""Of what another writes into as well: the stack wins."""
KEPT: Final = {"pulumi.com/patchFieldManager": names.PLATFORM_MANAGER, **FORCE}
"""Of all that may be in the cluster already: left behind (`kept`), or taken over (`trainyard adopt`)."""
RETAINED: Final = {names.HELM_RESOURCE_POLICY: names.HELM_KEEP}
"""Of what `kept.options` leaves behind, for whoever can't see those: Helm, and the rule `crds-retained`."""
