"""The retrieval problem: a plain-Python oracle, roles, attention paths, shapes of chains, sequences, symbols."""
