"""The CRDs of everything that is installed."""
