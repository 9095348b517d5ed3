"""Associative memories: gradients write them, and how much they hold (Nichani, Lee & Bietti, 2024)."""
