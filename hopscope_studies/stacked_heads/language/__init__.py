"""The heads of a language model that do one hop: role paths, a minimal set, and connections between heads."""
