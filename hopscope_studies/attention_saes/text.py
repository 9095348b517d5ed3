"""Text that comes with every Python: the language reference that `help()` shows.

No other English prose of this length is on every machine. It differs a little between versions of Python, so a report
identifies the text by its sha256.
"""

from __future__ import annotations

import hashlib
from typing import Any

import torch
from jaxtyping import Int
from torch import Tensor

from hopscope.core.settings import BadInput

LENGTH = 128  # tokens of a block, its start token included


def topics() -> list[str]:
    """The pages, in order of their names. Raises BadInput if this Python lacks them."""
    try:
        from pydoc_data.topics import topics as pages
    except ImportError as error:
        raise BadInput("this Python comes without pydoc_data, its reference as text; install a whole Python") from error
    return [" ".join(pages[name].split()) for name in sorted(pages)]


def sha256() -> str:
    """The sha256 of all pages."""
    return hashlib.sha256("\n".join(topics()).encode()).hexdigest()


def blocks(tokenizer: Any, count: int, half: int) -> Int[Tensor, "block position"]:
    """Blocks from one half of the pages (every second page), each with a start token; the halves share no page.

    Raises BadInput if there is less text.
    """
    tokens = [token for page in topics()[half::2] for token in tokenizer(page, add_special_tokens=False)["input_ids"]]
    width = LENGTH - 1
    there = len(tokens) // width
    if count > there:
        raise BadInput(f"the text has {there} blocks of {LENGTH} tokens in each half; got {count}")
    spread = [(i * there // count) * width for i in range(count)]  # over all pages
    start = tokenizer.bos_token_id
    return torch.tensor([[start, *tokens[at : at + width]] for at in spread])
