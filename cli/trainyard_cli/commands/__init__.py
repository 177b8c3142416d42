"""The commands, a module each: what is asked, and how the answer is printed."""
