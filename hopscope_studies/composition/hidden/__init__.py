"""Prompts with hidden rules for a language model, with and without its induction heads."""
