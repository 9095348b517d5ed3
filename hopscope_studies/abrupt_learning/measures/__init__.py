"""Measures of this study."""
