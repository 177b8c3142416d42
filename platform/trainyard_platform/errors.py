"""The one error that the platform ends with when the user can fix it."""

from trainyard_api.errors import UserError


class PlatformError(UserError):
    """A wrong setting, artifact or catalog file, with its place and the way out."""
