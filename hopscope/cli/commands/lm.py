"""`hopscope lm`: language models: their questions, how well they answer, and which heads retrieve."""

from __future__ import annotations

from hopscope.cli.options import Listed


class Commands(Listed):
    """The commands about language models."""

    folder = "cli.lm"


command = Commands("lm", help="Ask language models the retrieval problem in words, and find the heads that solve it.")
