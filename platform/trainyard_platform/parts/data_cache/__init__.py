"""What runtimes need that stream a table from a cache."""
