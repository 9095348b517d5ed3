"""Experiments of the study `repeated_data`."""
