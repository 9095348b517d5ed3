"""Language models on the retrieval problem: asked, scored, and opened (Musat, ICLR 2025, sections 4 and A)."""
