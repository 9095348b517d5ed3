"""Figures that only this study draws."""
