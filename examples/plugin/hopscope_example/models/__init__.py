"""Models, found by file name."""
