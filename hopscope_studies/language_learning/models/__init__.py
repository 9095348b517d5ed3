"""Models that only this study uses."""
