"""Optimizers, found by file name."""
