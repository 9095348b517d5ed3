"""Counts of the scores that the authors released, of every head in every run, for seven models.

From nightdessert/Retrieval_Head, head_score/*.json, at commit 3ac171a. A run is a needle in a context of up to 50,000
tokens that the model found. A token hit twice counts twice there, so a score can be a little above 1. The columns of
`data/published.csv`: the model's name; its number of heads; the number of needles that it found; heads with a mean
score of at least 0.1, and of at least 0.5; heads with a score above 0 in more than 95 % of the runs; the highest mean
score.
"""

from __future__ import annotations

from pathlib import Path

from pandas import read_csv

#: A model's counts, by column.
MODELS = read_csv(Path(__file__).parent / "data" / "published.csv").to_dict("records")
