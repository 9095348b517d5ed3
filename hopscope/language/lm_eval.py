"""Export questions as tasks for EleutherAI's lm-evaluation-harness: only data files, without importing it.

A formulation becomes one JSONL file and two tasks. `…_choice` is multiple choice by log-likelihood: the statements and
the stem (`print(s)\\n# output:`), continued by each acceptable answer. `…_generate` asks the prompt of appendix A,
takes the first line of a greedy completion after its thoughts, and scores it twice: `strict` accepts only the answer
itself (Musat, ICLR 2025, section 4, without resampling, which lm-eval does not have); `lenient` takes the last
acceptable answer in the line.

A benchmark is exported in the same way. `…_choice` is between the right answer and three from the same distribution.
`…_generate` only accepts the right answer as it is written here, with no other measure, because data files cannot hold
a scorer. inspect and `hopscope lm evaluate` parse answers by the benchmark's grammar.
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
#: The first line after any thoughts that is not empty; no match if thoughts do not end.
FIRST_LINE = rf"\A(?:[\s\S]*(?:{ENDS})|(?![\s\S]*(?:{ENDS})))\s*(?=\S)(?!{BEGINS})((?:(?!{BEHIND}).)+)"

#: The protocol that leaves questions unchanged.
DIRECT = GreedyStrict()


@dataclass(frozen=True)
class Exported:
    """The result of an export: names of the tasks in `folder`, each with `count` questions."""

    folder: Path
    tasks: tuple[str, ...]
    count: int


def export(formulation: Questions, folder: Path, count: int, seed: int, protocol: Protocol = DIRECT) -> Exported:
    """Write questions 0 … count − 1 under a seed, changed by a protocol. Raises CannotSave.

    The protocol's rule is not used: `…_choice` scores log-likelihoods, and `…_generate` greedy texts. For a chain of
    thought there is only the latter, parsed as by `hopscope lm evaluate` (`thoughts`). lm-eval has no class for texts
    that were cut off, and counts them as wrong.

    The tasks refer to the JSONL file by its absolute path, because lm-eval would look for a relative one in the folder
    that it is started in. So a folder that was moved must be exported again.
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
    """For example `hopscope_equations_5_hops_4_chains`, followed by further settings."""
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
    """Greedy generation, and how its text is parsed; a text without an acceptable answer counts as `[invalid]`."""
    if isinstance(formulation, Benchmark):
        whole = regex(rf"\A[\s{INVISIBLE}]*([^\s{INVISIBLE}].*?)[\s{INVISIBLE}]*\.?\s*\Z")
        return generate_until({"strict": whole}, formulation.MAX_TOKENS)
    longest_first = sorted(question.acceptable, key=len, reverse=True)
    strict = regex(rf"\A[\s{INVISIBLE}]*({'|'.join(map(re.escape, longest_first))})[\s{INVISIBLE}]*\.?\s*\Z")
    lenient = regex(f"({'|'.join(map(alone, longest_first))})") | {"group_select": -1}
    if isinstance(protocol.rule, ChainOfThought):
        return generate_until({"thoughts": lenient}, protocol.rule.max_tokens, LAST_LINE)
    return generate_until({"strict": strict, "lenient": lenient})


def regex(pattern: str) -> dict[str, Any]:
    """A filter of lm-eval: the first match of the pattern's one group."""
    return {"function": "regex", "regex_pattern": pattern, "fallback": "[invalid]"}


def generate_until(filters: dict[str, dict[str, Any]], max_tokens: int = 32, line: str = FIRST_LINE) -> dict[str, Any]:
    """A line of a greedy completion, by default the first one, parsed by each of the named filters."""
    return {
        "output_type": "generate_until",
        "doc_to_text": "{{prompt}}",
        "doc_to_target": "answer",  # the column, because lm-eval would parse "[1, 2]" from a template as a list
        # Until the text's end, because thoughts before the answer may have several lines.
        "generation_kwargs": {"until": ["</s>"], "do_sample": False, "max_gen_toks": max_tokens},
        "filter_list": [
            {"name": name, "filter": [regex(line), way, {"function": "take_first"}]} for name, way in filters.items()
        ],
        "metric_list": [{"metric": "exact_match", "aggregation": "mean", "higher_is_better": True}],
    }


def to_yaml(settings: dict[str, Any]) -> bytes:
    """YAML with one setting per line. JSON values are valid YAML, so no library is needed."""
    return "".join(f"{name}: {json.dumps(value)}\n" for name, value in settings.items()).encode()
