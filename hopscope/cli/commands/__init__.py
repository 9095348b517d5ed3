"""Commands, one per file; each file defines `command`."""
