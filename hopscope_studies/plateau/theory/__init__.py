"""What can be worked out by hand of the plateau."""
