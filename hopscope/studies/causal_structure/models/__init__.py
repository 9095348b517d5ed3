"""Models of this study."""
