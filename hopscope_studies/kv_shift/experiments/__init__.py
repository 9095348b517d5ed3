"""Experiments of the study `kv_shift`."""
