"""Domains of the study, found by file name."""
