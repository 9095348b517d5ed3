"""Emergence: when during training each attention path appears, and in which order (Musat, ICLR 2025, section 9)."""
