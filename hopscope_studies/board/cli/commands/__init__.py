"""The study's command, found by its file's name."""
