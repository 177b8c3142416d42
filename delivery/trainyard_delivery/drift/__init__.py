"""Whether the cluster matches git, including fields that others have added: pure.

`expected` has the objects that a stack asks for. For each, a dry run asks the
API server what a replace of the live object by exactly that would give (`body`
in `comparison` builds the request). What then differs from the live object is
what somebody else has added, changed or removed (`differences`), except what
`writers.yaml` says that others may write (`writers`). The live object says who
that was (`ownership`).

Pulumi's own comparison and the dry run of an apply do not see what others have
added: docs/adr/0016-drift-by-dry-run-replace.md.
"""
