"""Experiments of the study `two_hop`."""
