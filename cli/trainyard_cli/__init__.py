"""The `trainyard` command: thin; each subcommand calls one of the rooms."""
