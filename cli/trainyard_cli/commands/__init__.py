"""The commands, one module each: what they ask, and how they print the answer."""
