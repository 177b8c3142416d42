"""What ends a benchmark early."""


class BenchmarkError(Exception):
    """It could not be measured; the message says why, in words for whoever started it."""
