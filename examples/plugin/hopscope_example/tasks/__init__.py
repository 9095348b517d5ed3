"""Tasks, found by file name."""
