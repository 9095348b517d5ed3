"""The same questions for a language model: its heads next to recall models, and its answers on lists."""
