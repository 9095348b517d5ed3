"""What can be worked out by hand of the phase change."""
