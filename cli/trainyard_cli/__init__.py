"""The `trainyard` command: a thin layer; each subcommand calls another package."""
