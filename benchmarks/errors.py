"""What ends a benchmark early."""

from trainyard_api.errors import UserError


class BenchmarkError(UserError):
    """A measurement failed; the message says why, for the user of the command."""
