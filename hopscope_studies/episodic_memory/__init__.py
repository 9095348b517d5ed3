"""Induction heads and episodic memory (Ji-An et al., 2024, arXiv:2405.14992; Mistry et al., 2025, arXiv:2502.06902).

Found: In small models every head that copies attends as a model of human recall (CMR) does, and almost no other head
does. These models answer with neighbours in the list, but no longer when the copying heads are silenced. In SmolLM2
strong induction heads attend to the next item alone, and only weak ones spread their attention over several items as
people do. But by the paper's criterion nearly half of an untrained model's heads are like recall, too. In Gemma 3 270M
more heads are like recall, and few are so at initial weights.
"""
