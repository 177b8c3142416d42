"""What ends a benchmark early."""


class BenchmarkError(Exception):
    """A measurement failed; the message says why, for the user of the command."""
