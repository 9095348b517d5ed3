"""The retrieval problem in words: one formulation per file (Musat, ICLR 2025, appendix A)."""
