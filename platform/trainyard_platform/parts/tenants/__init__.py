"""Teams: a namespace each, who may do what in it, and how much."""
