"""The one error that the platform's program ends with when the user can put it right."""

import pulumi


class PlatformError(pulumi.RunError):
    """A wrong setting, artifact or catalog file, with its place and the way out.

    Pulumi shows a `RunError` as one message, without a traceback.
    """
