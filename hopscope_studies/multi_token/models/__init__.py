"""The model of this study."""
