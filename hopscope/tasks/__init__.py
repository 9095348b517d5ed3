"""Tasks: data-generating processes, each rendering the retrieval problem (or another) as tensors. One per file."""
