"""The retrieval problem: the plain-Python oracle, roles, attention paths, shapes of chains, sequences, symbols."""
