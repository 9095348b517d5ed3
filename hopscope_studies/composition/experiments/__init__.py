"""Experiments of the study `composition`."""
