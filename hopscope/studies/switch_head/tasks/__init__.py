"""Tasks of this study."""
