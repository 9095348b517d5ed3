"""Theory that only this study uses."""
