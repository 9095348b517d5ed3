"""lm-eval on servers with habits; run in the environment of the peers.

    PYTHONPATH=. .venv-peers/bin/python -m tests.language.lm_eval_served FOLDER

FOLDER holds what `hopscope ask equations --export FOLDER` wrote. Prints a line of JSON: by habit and task lm-eval's
scores, or the sentence with which it stops; by its own clients under `theirs`, by ours under `ours`.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import sys
from pathlib import Path
from typing import Any

os.environ |= {"HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1", "OPENAI_API_KEY": "none"}

from lm_eval import simple_evaluate
from lm_eval.api.instance import Instance
from lm_eval.tasks import TaskManager
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from hopscope.core.settings import BadInput
from hopscope.language.lm_eval_model import Asked
from hopscope.language.server import Patience
from hopscope.language.turns import completion
from tests.language.habits_server import HABITS, WORDS, HabitsServer, tokens

HASTY = Patience(timeout=5.0, silence=5.0, pause=0.001, longest=0.01)


def tokenizer(folder: Path, texts: list[str]) -> str:
    """A folder with the server's tokens, by which lm-eval counts where an answer begins."""
    words = sorted({token for text in texts for token in tokens(text)})
    made = Tokenizer(models.WordLevel({word: n for n, word in enumerate(["</s>", *words])}, "</s>"))
    made.pre_tokenizer = pre_tokenizers.Split(Regex(r"[A-Za-z]+|\d|\s|[^\w\s]|_"), "isolated")
    made.decoder = decoders.Fuse()
    PreTrainedTokenizerFast(tokenizer_object=made, eos_token="</s>", unk_token="</s>").save_pretrained(folder)
    return str(folder)


def scores(tasks: dict[str, str], manager: TaskManager, **how: object) -> dict[str, Any]:
    """What lm-eval says of each task, or why it says nothing."""
    names, quiet = list(tasks.values()), {"bootstrap_iters": 0, "log_samples": False}
    try:
        found = simple_evaluate(tasks=names, task_manager=manager, **quiet, **how)["results"]
    except Exception as error:
        if len(tasks) == 1:
            return dict.fromkeys(tasks, str(error) or type(error).__name__)
        return {key: value for way in tasks.items() for key, value in scores(dict([way]), manager, **how).items()}
    return {
        way: {measure: value for measure, value in found[name].items() if re.match(r"(acc|exact_match),", measure)}
        for way, name in tasks.items()
    }


def main(folder: Path) -> dict[str, dict[str, Any]]:
    manager = TaskManager(include_path=str(folder), include_defaults=False)
    tasks = {way: path.stem for way in ("choice", "generate") for path in folder.glob(f"*_{way}.yaml")}
    documents = [json.loads(line) for path in folder.glob("*.jsonl") for line in path.open()]
    texts = [f"{one['continued']} {answer}" for one in documents for answer in one["acceptable"]]
    words = tokenizer(folder / "tokenizer", texts)
    found = {}
    for habit in HABITS:
        with HabitsServer(habit) as server:
            asked = Asked(server.url)
            asked.endpoint.server.patience = HASTY
            found[habit] = {"ours": scores(tasks, manager, model=asked)}
            found[habit]["left_out"] = asked.get_model_info()["hopscope"]["left_out"]
            asked.endpoint.close()
            common = {"model": "x", "max_retries": 1}
            chat = {**common, "base_url": f"{server.url}/chat/completions", "tokenizer_backend": None}
            if habit in WORDS:
                how = {"model": "local-chat-completions", "model_args": chat, "apply_chat_template": True}
                found[habit]["theirs"] = scores({"generate": tasks["generate"]}, manager, **how)
            if habit == "plain":  # whatever is written, scores are the same
                more = {"tokenizer_backend": "huggingface", "tokenizer": words, "tokenized_requests": False}
                plain = {**common, "base_url": f"{server.url}/completions", **more}
                how = {"model": "local-completions", "model_args": plain}
                found[habit]["theirs"] |= scores({"choice": tasks["choice"]}, manager, **how)
    found["two tasks"] = {"ours": cut_in_one_task()}
    return found


def cut_in_one_task() -> str:
    """What is said where all answers to one task were cut off, beside a task whose answers ended."""
    with HabitsServer("plain") as server:
        asked = Asked(server.url)
        asked.endpoint.close()
    reasons = ["stop", "stop", "length", "length"]
    asked.endpoint.generate = lambda requests, how: [completion("1", reason, "", ()) for reason in reasons]
    how = {"until": ["\n"], "max_gen_toks": 8}
    requests = [Instance("generate_until", {}, ("text", how), 0, (f"hopscope_{n // 2}", n, 1)) for n in range(4)]
    try:
        return str(asked.generate_until(requests))
    except BadInput as error:
        return str(error)


if __name__ == "__main__":
    with contextlib.redirect_stdout(sys.stderr):
        told = main(Path(sys.argv[1]))
    print(json.dumps(told))
