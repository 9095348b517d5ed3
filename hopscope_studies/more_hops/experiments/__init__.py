"""Experiments of the study `more_hops`."""
