"""Transformers built by hand: real weights, compiled from a schedule of paths, with the truth about their circuits; and
the induction circuit of items and labels."""
