"""Experiments of the study `mixers`."""
