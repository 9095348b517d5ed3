"""Experiments of the study `board`."""
