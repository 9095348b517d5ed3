"""Transformers with hand-made weights: compiled from a schedule of paths, with known minimal circuits; and the
induction circuit of items and labels."""
