"""`hopscope lm ask FORMULATION`: print questions of a formulation or a benchmark, or export them for lm-eval."""

from __future__ import annotations

from typing import Any

import click

from hopscope.cli.given import refuse_beside
from hopscope.cli.options import PATH, PerVariant, as_json, pick, print_json, say
from hopscope.core import catalogue
from hopscope.core.places import check_out
from hopscope.core.wording import count
from hopscope.formulations.base import Question, Questions
from hopscope.language import lm_eval
from hopscope.language.benchmarks.base import Benchmark, Exercise

BENCHMARKS = "language.benchmarks"
MOST = 1_000_000  # questions


class Asks(PerVariant):
    """The command, with a subcommand for each formulation and each benchmark."""

    def list_commands(self, context: click.Context) -> list[str]:
        return [*catalogue.names(self.folder), *catalogue.names(BENCHMARKS)]

    def folder_of(self, name: str) -> str:
        return BENCHMARKS if name in catalogue.names(BENCHMARKS) else self.folder


@click.command("ask", cls=Asks, folder="formulations")
@click.option("--count", type=click.IntRange(1, MOST), default=1, show_default=True, help="How many questions.")
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="Which questions.")
@click.option(
    "--export", type=PATH, metavar="DIR", help="Write the questions as tasks for lm-eval into this folder instead."
)
@click.option("--protocol", default="greedy_strict", help="Change questions as in a protocol, such as filler_tokens.")
@as_json
def command(kind: type[Questions], given: dict[str, Any]) -> None:
    """Print the retrieval problem in words, as in the paper, or exercises of a benchmark."""
    formulation, protocol = pick(kind, given), catalogue.chosen("language.protocols", given["protocol"])
    if issubclass(kind, Benchmark):
        refuse_beside("is for formulations", "protocol")
    if given["export"] is not None:
        check_out(given["export"])
        tell(lm_eval.export(formulation, given["export"], given["count"], given["seed"], protocol), given["as_json"])
        return
    questions = [protocol.put(formulation).question(given["seed"], index) for index in range(given["count"])]
    if given["as_json"]:
        print_json([question.as_dict() for question in questions])
    else:
        say("\n\n".join(map(as_text, questions)))


def as_text(question: Question) -> str:
    """A question as in the paper's appendix A; an exercise of a benchmark with its choices."""
    text = f"{question.prompt}\nCorrect: {question.answer}\n"
    if isinstance(question, Exercise):
        return text + "Choices: " + " | ".join(question.acceptable)
    return f"{text}Acceptable: {', '.join(question.acceptable)}"


def tell(exported: lm_eval.Exported, as_json: bool) -> None:
    """Say what was exported, and how to run it."""
    if as_json:
        print_json({"folder": str(exported.folder), "tasks": list(exported.tasks), "questions": exported.count})
        return
    what = f"{count(exported.count, 'question')} and {count(len(exported.tasks), 'task')}"
    say(f"{what} are in {exported.folder}; run them with")
    say(f"lm_eval --include_path {exported.folder} --tasks {','.join(exported.tasks)} --model …")
