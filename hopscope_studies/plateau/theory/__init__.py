"""Closed forms and a small model of the plateau."""
