"""The settings of a stack, without the objects that are made from them.

A section of a stack file has a module of its name, and `settings` puts them
together. `value_types` has the values that many sections share, `schema` makes
the JSON Schema that editors complete from.
"""
