"""Experiments of this study."""
