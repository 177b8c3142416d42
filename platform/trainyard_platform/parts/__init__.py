"""The parts of a platform, a folder each.

`settings` is what a stack says about the part, `manifests` turns that into
objects, and `component` has Pulumi install them; a part has those of the three
that it needs. `platform/__main__.py` puts the parts in order; a component's
`after` is what must exist before its first resource.
"""
