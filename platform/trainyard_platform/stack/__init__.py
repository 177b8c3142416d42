"""What a stack may say: `settings` puts the sections of a stack file together, a module each."""
