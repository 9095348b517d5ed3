"""Ways to tell a transformer where a position stands, found by file name."""
