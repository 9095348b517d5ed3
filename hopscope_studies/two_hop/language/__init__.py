"""Two hops in words: templates with invented names, asked of a language model."""
