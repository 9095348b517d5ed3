"""Tasks: data-generating processes that render the retrieval problem, or another one, as tensors. One per file."""
