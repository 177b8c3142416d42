"""StorageClasses for the claims of the catalog."""
