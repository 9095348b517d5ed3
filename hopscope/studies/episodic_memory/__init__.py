"""Induction heads and episodic memory (Ji-An et al., 2024, arXiv:2405.14992; Mistry et al., 2025, arXiv:2502.06902)."""
