"""Other people's ways to find a circuit, lifted to our unit, the path: one file each, found by name."""
