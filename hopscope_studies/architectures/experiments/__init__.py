"""Experiments of the study `architectures`."""
