"""One Pulumi component a module.

`platform/__main__.py` puts them in order; each one's `after` is what has to
stand before its first resource.
"""
