"""Experiments of the study `census`."""
