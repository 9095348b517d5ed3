"""How a language model recalls facts: topic heads, MLPs, the last layer (Lv et al., 2024, arXiv:2403.19521).

Found: Ten of SmolLM2's 270 heads write 0.79 to 0.84 of what all heads write along the subject at the last token. If
their outputs are taken from another subject's prompt, the answer moves 0.83 to 0.87 of the way to that subject's
answer. With the outputs of ten random heads it moves 0.05 of the way at most. But heads also write 60 % of what is
known about the subject, and MLPs the rest. The last layer does not suppress the answer but raises its logit, by 4 nats.
The outputs of heads explain only 0.02 of the variation in the output of the MLP that adds most.
"""
