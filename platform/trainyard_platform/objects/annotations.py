"""Annotations that say how the provider, or Helm, treats an object: pure."""

from typing import Final

from trainyard_api import names

FORCE: Final = {"pulumi.com/patchForce": "true"}
"""For what others also write into: the stack takes precedence."""
KEPT: Final = {"pulumi.com/patchFieldManager": names.PLATFORM_MANAGER, **FORCE}
"""For all that may already exist in the cluster: left behind (`retention`), or taken over by `adopt`."""
RETAINED: Final = {names.HELM_RESOURCE_POLICY: names.HELM_KEEP}
"""For what `retention.options` leaves behind: for Helm and the rule `crds-retained`, which see no options."""
