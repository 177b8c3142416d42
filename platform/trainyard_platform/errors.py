"""The one error that the platform ends with when the user can fix it."""


class PlatformError(Exception):
    """A wrong setting, artifact or catalog file, with its place and the way out."""
