"""The catalog: its files, and its runtimes as a stack installs them."""
