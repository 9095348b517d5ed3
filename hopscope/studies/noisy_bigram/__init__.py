"""Global association against in-context recall (Chen, Bruna and Bietti, 2024, arXiv:2406.03068)."""
