"""`hopscope lm`: language models: questions for them, their evaluation, and the heads that retrieve."""

from __future__ import annotations

from hopscope.cli.options import Listed


class Commands(Listed):
    """The commands about language models."""

    folder = "cli.lm"


command = Commands("lm", help="Evaluate language models on the retrieval problem in words, and find heads that do it.")
