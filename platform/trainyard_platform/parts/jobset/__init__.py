"""JobSet's controller."""
