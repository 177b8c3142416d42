"""Device plugins, and what each kind of accelerator asks of a runtime."""
