"""In-context learning of functions that make their own sequence, with clean and with random labels. See its README."""
