"""Circuits: which attention paths a model needs, found without looking at maps (Musat, ICLR 2025, appendix E)."""
