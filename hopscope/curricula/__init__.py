"""Curricula: which hops are asked, and how hard the data of each training step are. One per file."""
