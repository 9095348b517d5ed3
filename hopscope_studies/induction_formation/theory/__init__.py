"""Theory of the phase change."""
