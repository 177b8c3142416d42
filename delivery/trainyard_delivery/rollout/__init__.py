"""The output of `trainyard preview` and `trainyard up`: pure.

Called by `trainyard preview` and `trainyard up` with what Pulumi's engine
reports, event by event: `events` reads them, `words` says what follows for people, and
`outcome` for programs.
"""
