"""Who reaches the platform's own pods."""
