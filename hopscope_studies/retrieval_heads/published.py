"""Counts of the scores that the authors released, of every head in every run, for seven models.

From nightdessert/Retrieval_Head, head_score/*.json, at commit 3ac171a. A run is a needle in a context of up to 50,000
tokens that the model found. A token hit twice counts twice there, so a score can be a little above 1.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Released:
    """A model's counts.

    Attributes:
        model: the model's name.
        heads: the number of heads.
        runs: the number of needles that it found.
        retrieval: heads with a mean score of at least 0.1.
        half: heads with a mean score of at least 0.5.
        always: heads with a score above 0 in more than 95 % of the runs.
        highest: the highest mean score.
    """

    model: str
    heads: int
    runs: int
    retrieval: int
    half: int
    always: int
    highest: float


MODELS = (
    Released("Llama-2-7B-80K", 1024, 586, 33, 6, 25, 0.943),
    Released("Llama-2-13B-64K", 1600, 367, 33, 6, 29, 0.905),
    Released("Mistral-7B-v0.2", 1024, 362, 43, 5, 40, 0.943),
    Released("Mixtral-8x7B-v0.1", 1024, 390, 63, 7, 56, 0.945),
    Released("Qwen1.5-14B", 1600, 390, 61, 10, 43, 1.003),
    Released("Qwen1.5-14B-Chat", 1600, 221, 68, 1, 41, 0.525),
    Released("Yi-6B-200K", 1024, 567, 53, 7, 32, 0.778),
)
