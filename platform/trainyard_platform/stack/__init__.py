"""What a stack may say, and nothing of what becomes of it.

A section of a stack file has a module of its name, and `settings` puts them
together. `value_types` has the values that many sections share, `schema` makes
the JSON Schema that editors complete from.
"""
