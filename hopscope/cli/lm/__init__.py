"""Commands about language models, one per file; each file defines `command`."""
