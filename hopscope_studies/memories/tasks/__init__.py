"""Tasks that only this study uses, one per file."""
