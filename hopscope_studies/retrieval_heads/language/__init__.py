"""Heads that copy an answer from a long text: needles in hay, scores, and the cost of masking."""
