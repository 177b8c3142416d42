"""What runtimes need to stream a table from a cache."""
