"""Tools for the attention of language models: reading and editing it, head scores, ablation, prompts with roles."""
