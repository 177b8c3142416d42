"""The rules for training runtimes and TrainJobs, and the gates that apply them.

`rules` holds one rule per file, each a pure function over a manifest or over
all of them; `engine` runs them at the levels in `settings`, and knows about
exceptions. The gates are thin: `lint` for files, `pack` for `pulumi preview`.

Called by the command line, by `policies/__main__.py` and, for the section
`policies` of a stack file, by the platform. Imports only `trainyard_api`.
"""
