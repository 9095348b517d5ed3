"""Heads that copy an answer out of a long text: needles in hay, scores, and what masking costs."""
