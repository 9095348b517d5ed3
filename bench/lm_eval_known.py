"""Models whose answers are known, asked through lm-eval; run in the peers' environment.

    PYTHONPATH=. .venv-peers/bin/python -m bench.lm_eval_known FOLDER [RULE …]

FOLDER holds what `hopscope lm ask … --export FOLDER` wrote, of one or more formulations. Prints a line of JSON: for
every model and task, lm-eval's scores. Nothing is fetched: HF_HUB_OFFLINE and HF_DATASETS_OFFLINE should be set.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import lm_eval
from lm_eval.api.instance import Instance
from lm_eval.api.model import LM
from lm_eval.tasks import TaskManager


class Known(LM):
    """A model that is told all questions and answers each by a rule, as `oracle`, `last` or `first` word it."""

    def __init__(self, documents: list[dict[str, Any]], rule: str):
        super().__init__()
        self.rule = rule
        self.by_text = {
            text: document for document in documents for text in (document["prompt"], document["continued"])
        }

    def choose(self, text: str) -> str:
        """The acceptable answer that the rule names."""
        document = self.by_text[text]
        if self.rule == "last":
            return re.findall(r"\b(?:" + "|".join(document["acceptable"]) + r")\b", document["prompt"])[-1]
        return document["acceptable"][0] if self.rule == "first" else document["answer"]

    def loglikelihood(self, requests: list[Instance]) -> list[tuple[float, bool]]:
        likely = [continuation == f" {self.choose(text)}" for text, continuation in (r.args for r in requests)]
        return [(-1.0 if right else -2.0, right) for right in likely]

    def generate_until(self, requests: list[Instance]) -> list[str]:
        chosen = [self.choose(request.args[0]) for request in requests]
        return [f"Not that, but {answer}." if self.rule == "chatty" else f" {answer}\n" for answer in chosen]

    def loglikelihood_rolling(self, requests: list[Instance]) -> list[float]:
        raise NotImplementedError


def scores(folder: Path, rule: str) -> dict[str, dict[str, float]]:
    """What lm-eval says of a model on all tasks of a folder."""
    documents = [json.loads(line) for path in sorted(folder.glob("*.jsonl")) for line in path.open()]
    done = lm_eval.simple_evaluate(
        model=Known(documents, rule),
        tasks=sorted(path.stem for path in folder.glob("*.yaml")),
        task_manager=TaskManager(include_path=str(folder), include_defaults=False),
        bootstrap_iters=0,
    )
    return {
        task: {name: value for name, value in found.items() if isinstance(value, float) and "stderr" not in name}
        for task, found in done["results"].items()
    }


if __name__ == "__main__":
    given = Path(sys.argv[1])
    rules = sys.argv[2:] or ("oracle", "last", "first", "chatty")
    print(json.dumps({rule: scores(given, rule) for rule in rules}))
