"""A lens on language models: their attention read and edited, heads scored and taken out, prompts with roles."""
