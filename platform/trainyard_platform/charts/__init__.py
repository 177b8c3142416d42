"""Charts of upstream projects as parts of a stack."""
