"""Position codes of transformers, one per file, found by file name."""
