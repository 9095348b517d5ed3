"""Experiments of the study `multi_token`."""
