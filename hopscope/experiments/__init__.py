"""Experiments: one figure or claim of a paper per file, each with runs, a table, a figure and claims."""

FRAME = ("judging",)  # files that are no experiments
