"""Device plugins, and what each kind of accelerator requires of a runtime."""
