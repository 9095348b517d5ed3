"""Experiments of the study `non_target_heads`."""
