"""Language models on the retrieval problem: evaluation, scoring, attention (Musat, ICLR 2025, sections 4 and A)."""
