"""The same questions asked of a language model: its heads beside models of recall, and its answers on lists."""
