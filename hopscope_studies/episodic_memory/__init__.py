"""Induction heads and episodic memory (Ji-An et al., 2024, arXiv:2405.14992; Mistry et al., 2025, arXiv:2502.06902).

Found: In small models every head that copies attends like a model of human recall, and almost no other head does.
Answers are contiguous, and no longer so when the copying heads are silenced. In SmolLM2 strong induction heads chain,
and only weak ones drift as people do. But nearly half of an untrained model's heads are CMR-like, too. In Gemma 3 270M
more heads are like recall, and few are so at initial weights.
"""
