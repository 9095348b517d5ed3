"""Experiments of the study `switch_head`."""
