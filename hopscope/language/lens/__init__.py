"""Tools to study attention in language models: reading and editing it, head scores, ablation, prompts with roles."""
