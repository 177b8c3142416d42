"""The parts of a platform, a folder each.

`manifests` turns the stack's settings of the part, `stack.<part>`, into objects,
and `component` has Pulumi install them; a part has those that it needs.
`program` puts the parts in order; a component's `after` is what
must exist before its first resource.
"""
