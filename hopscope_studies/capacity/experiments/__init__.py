"""Experiments of the study `capacity`."""
