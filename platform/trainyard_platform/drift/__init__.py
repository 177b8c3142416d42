"""Is the cluster what git says, down to what others have added: pure.

`expected` has the objects that a stack asks for. For each, the API server is
asked what a replace of the live object by exactly that would give, in a dry
run (`body` in `comparison` makes the request). What then differs from the live
object is what somebody else has put there, changed or taken away
(`differences`), but for what `writers.yaml` says that others rightly write
(`writers`). Who that was stands in the live object (`ownership`).

Pulumi's own comparison and the dry run of an apply do not see what others have
added: docs/adr/0016-drift-by-dry-run-replace.md.
"""
