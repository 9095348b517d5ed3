"""lm-eval's own clients on servers with habits; run in the environment of the peers.

    PYTHONPATH=. .venv-peers/bin/python -m tests.language.lm_eval_served FOLDER

FOLDER holds what `hopscope ask equations --export FOLDER` wrote. Prints a line of JSON: by habit and task lm-eval's
scores, or the name of the error with which it stops.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import sys
from pathlib import Path

os.environ |= {"HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1", "OPENAI_API_KEY": "none"}

from lm_eval import simple_evaluate
from lm_eval.tasks import TaskManager
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from tests.language.habits_server import HABITS, WORDS, HabitsServer, tokens


def tokenizer(folder: Path, texts: list[str]) -> str:
    """A folder with the server's tokens, by which lm-eval counts where an answer begins."""
    words = sorted({token for text in texts for token in tokens(text)})
    made = Tokenizer(models.WordLevel({word: n for n, word in enumerate(["</s>", *words])}, "</s>"))
    made.pre_tokenizer = pre_tokenizers.Split(Regex(r"[A-Za-z]+|\d|\s|[^\w\s]|_"), "isolated")
    made.decoder = decoders.Fuse()
    PreTrainedTokenizerFast(tokenizer_object=made, eos_token="</s>", unk_token="</s>").save_pretrained(folder)
    return str(folder)


def scores(task: str, manager: TaskManager, **how: object) -> dict[str, float] | str:
    """What lm-eval says of one task, or why it says nothing."""
    try:
        done = simple_evaluate(tasks=[task], task_manager=manager, bootstrap_iters=0, log_samples=False, **how)
    except Exception as error:
        return type(error).__name__
    [found] = done["results"].values()
    return {name: float(value) for name, value in found.items() if re.match(r"(acc|exact_match),", name)}


def main(folder: Path) -> dict[str, dict[str, dict[str, float] | str]]:
    manager = TaskManager(include_path=str(folder), include_defaults=False)
    chosen, written = (path.stem for way in ("choice", "generate") for path in folder.glob(f"*_{way}.yaml"))
    documents = [json.loads(line) for path in folder.glob("*.jsonl") for line in path.open()]
    texts = [f"{one['continued']} {answer}" for one in documents for answer in one["acceptable"]]
    words = tokenizer(folder / "tokenizer", texts)
    found = {}
    for habit in HABITS:
        with HabitsServer(habit) as server:
            common = {"model": "x", "max_retries": 1}
            chat = {**common, "base_url": f"{server.url}/chat/completions", "tokenizer_backend": None}
            plain = {**common, "base_url": f"{server.url}/completions", "tokenizer_backend": "huggingface"}
            plain |= {"tokenizer": words, "tokenized_requests": False}
            found[habit] = {
                "generate": scores(
                    written, manager, model="local-chat-completions", model_args=chat, apply_chat_template=True
                )
            }
            if habit == "plain" or habit not in WORDS:  # whatever is written, scores are the same
                found[habit]["choice"] = scores(chosen, manager, model="local-completions", model_args=plain)
    return found


if __name__ == "__main__":
    with contextlib.redirect_stdout(sys.stderr):
        told = main(Path(sys.argv[1]))
    print(json.dumps(told))
