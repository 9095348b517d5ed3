"""Theory of the abrupt change."""
