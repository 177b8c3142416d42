"""What `pulumi preview` and `pulumi up` do with a stack, in words: pure.

Called by `trainyard preview` and `trainyard up` with what Pulumi's engine
reports, event by event: `events` reads them, `words` says what follows for people, and
`outcome` for programs.
"""
