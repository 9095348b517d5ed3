"""How a language model recalls facts: topic heads, MLPs, the last layer (Lv et al., 2024, arXiv:2403.19521).

Found: Ten of SmolLM2's 270 heads write .79 to .84 of what all heads write along the subject at the last token. With
their outputs taken from another subject's prompt, the answer moves .83 to .87 of the way to the other subject's; with
those of ten random heads, at most .05. But heads also write 60 % of what is known about the subject, and MLPs the rest.
The last layer does not suppress the answer but raises it, by 4 nats. Heads' outputs explain only .02 of the variation
in the output of the MLP that adds most.
"""
