"""What can be known of a function that makes its own sequence."""
