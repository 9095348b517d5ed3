"""Questions as tasks for EleutherAI's lm-evaluation-harness: data files alone, nothing of it is imported.

A formulation becomes one JSONL file and two tasks. `…_choice` is multiple choice by log-likelihood: the statements
and the stem (`print(s)\\n# output:`), continued by each acceptable answer. `…_generate` asks the prompt of appendix A,
takes the first line of a greedy completion behind its thoughts, and scores it twice: `strict`, the answer alone (Musat,
ICLR 2025, section 4, without its resampling, which lm-eval cannot do), and `lenient`, the last acceptable answer in the
line.

A benchmark's exercise is exported alike. Its `…_choice` is among the right answer and three that were drawn alike; its
`…_generate` knows the right answer in the order and the spelling in which it is written here, and no other measure,
because data files hold no scorer. inspect and `hopscope lm evaluate` read answers by their grammar.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hopscope.core.storage import make_folder, write_file
from hopscope.formulations.base import Formulation, Question, Questions
from hopscope.formulations.base_draw import VERSION
from hopscope.language.benchmarks.base import Benchmark
from hopscope.language.protocols.base import INVISIBLE, Protocol, alone
from hopscope.language.protocols.chain_of_thought import LAST_LINE, ChainOfThought
from hopscope.language.protocols.greedy_strict import GreedyStrict
from hopscope.language.turns import THOUGHTS, TURN_ENDS

BEGINS, ENDS, BEHIND = ("|".join(map(re.escape, tags)) for tags in (THOUGHTS, THOUGHTS.values(), TURN_ENDS))
#: The first line that is not empty behind whatever thoughts there are; of thoughts without an end nothing.
FIRST_LINE = rf"\A(?:[\s\S]*(?:{ENDS})|(?![\s\S]*(?:{ENDS})))\s*(?=\S)(?!{BEGINS})((?:(?!{BEHIND}).)+)"

#: Questions as they are.
DIRECT = GreedyStrict()


@dataclass(frozen=True)
class Exported:
    """What was written: the tasks' names, in `folder`, on `count` questions."""

    folder: Path
    tasks: tuple[str, ...]
    count: int


def export(formulation: Questions, folder: Path, count: int, seed: int, protocol: Protocol = DIRECT) -> Exported:
    """Write questions 0 … count − 1 under a seed, as a protocol puts them. Raises CannotSave.

    Of a protocol's rule nothing is taken: `…_choice` is by log-likelihood, and `…_generate` by greedy texts. Of a chain
    of thought there is the latter alone, read as `hopscope lm evaluate` does (`thoughts`). lm-eval has no class for
    texts that were cut off, and counts them as wrong.

    The tasks name the JSONL file by its absolute path, because lm-eval would look for a relative one in the folder
    that it is started from: a folder that has been moved is exported anew.
    """
    folder = folder.resolve()
    make_folder(folder)
    put = protocol.put(formulation)
    its = "" if put is formulation else "_" + re.sub(r"\W+", "_", protocol.title).strip("_")
    name = task_name(formulation) + its
    questions = [put.question(seed, index) for index in range(count)]
    data = folder / f"{name}.jsonl"
    write_file(data, "".join(json.dumps(document(question)) + "\n" for question in questions).encode())
    about = {"version": VERSION, "formulation": formulation.name(), **formulation.as_dict(), "seed": seed}
    tasks = {f"{name}_choice": choice()} if protocol.direct else {}
    tasks |= {f"{name}_generate": generated(formulation, questions[0], protocol)}
    for task, settings in tasks.items():
        shared = {"task": task, "tag": ["hopscope"], "dataset_path": "json", "test_split": "test", "num_fewshot": 0}
        place = {"dataset_kwargs": {"data_files": {"test": str(data)}}}
        write_file(folder / f"{task}.yaml", to_yaml({**shared, **place, **settings, "metadata": about}))
    return Exported(folder, tuple(tasks), count)


def task_name(formulation: Questions) -> str:
    """`hopscope_equations_5_hops_4_chains`, and whatever else is set."""
    if not isinstance(formulation, Formulation):
        return "_".join(["hopscope", formulation.name(), *map(str, formulation.as_dict().values())])
    more = [str(value) for field, value in formulation.as_dict().items() if field not in ("n_hops", "n_chains")]
    hops, chains = f"{formulation.n_hops}_hops", f"{formulation.n_chains}_chains"
    return "_".join(["hopscope", formulation.name(), hops, chains, *more])


def document(question: Question) -> dict[str, Any]:
    """A question as one line of the JSONL file."""
    return {
        "index": question.index,
        "prompt": question.prompt,
        "continued": f"{question.facts}\n{question.stem}",
        "answer": question.answer,
        "acceptable": list(question.acceptable),
        "right": question.acceptable.index(question.answer),
    }


def choice() -> dict[str, Any]:
    """Multiple choice on the stem; the answers follow after a space."""
    return {
        "output_type": "multiple_choice",
        "doc_to_text": "{{continued}}",
        "doc_to_choice": "acceptable",
        "doc_to_target": "right",
        "target_delimiter": " ",
        "metric_list": [{"metric": "acc", "aggregation": "mean", "higher_is_better": True}],
    }


def generated(formulation: Questions, question: Question, protocol: Protocol) -> dict[str, Any]:
    """Greedy generation, and how its text is read; one without an acceptable answer counts as `[invalid]`."""
    if isinstance(formulation, Benchmark):
        whole = regex(rf"\A[\s{INVISIBLE}]*([^\s{INVISIBLE}].*?)[\s{INVISIBLE}]*\.?\s*\Z")
        return generate_until({"strict": whole}, formulation.MAX_TOKENS)
    longest_first = sorted(question.acceptable, key=len, reverse=True)
    strict = regex(rf"\A[\s{INVISIBLE}]*({'|'.join(map(re.escape, longest_first))})[\s{INVISIBLE}]*\.?\s*\Z")
    lenient = regex(f"({'|'.join(map(alone, longest_first))})") | {"group_select": -1}
    if isinstance(protocol, ChainOfThought):
        return generate_until({"thoughts": lenient}, protocol.max_tokens, LAST_LINE)
    return generate_until({"strict": strict, "lenient": lenient})


def regex(pattern: str) -> dict[str, Any]:
    """A filter of lm-eval's: what the pattern's one group finds first."""
    return {"function": "regex", "regex_pattern": pattern, "fallback": "[invalid]"}


def generate_until(filters: dict[str, dict[str, Any]], max_tokens: int = 32, line: str = FIRST_LINE) -> dict[str, Any]:
    """A line of a greedy completion, the first one by default, read in so many ways, each by its name."""
    return {
        "output_type": "generate_until",
        "doc_to_text": "{{prompt}}",
        "doc_to_target": "answer",  # the column; of a template lm-eval would read "[1, 2]" as a list
        # Until the text's end: thoughts, which come first, have lines, and the first behind them is the answer's.
        "generation_kwargs": {"until": ["</s>"], "do_sample": False, "max_gen_toks": max_tokens},
        "filter_list": [
            {"name": name, "filter": [regex(line), way, {"function": "take_first"}]} for name, way in filters.items()
        ],
        "metric_list": [{"metric": "exact_match", "aggregation": "mean", "higher_is_better": True}],
    }


def to_yaml(settings: dict[str, Any]) -> bytes:
    """YAML with one setting a line; JSON's values are YAML's, so that no library is needed."""
    return "".join(f"{name}: {json.dumps(value)}\n" for name, value in settings.items()).encode()
