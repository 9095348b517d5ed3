"""Formulations and benchmarks as tasks for inspect_ai, the evaluation framework of the UK's AI Security Institute.

    inspect eval hopscope/equations --model openai-api/local/name -T hops=1 -T count=120

inspect finds this file through its entry point (pyproject.toml), and provides model providers, logs, a viewer and
resumption. The default protocol is the paper's: answer directly, resample until the answer is acceptable (Musat, ICLR
2025, section 4 and appendix A), with a limit on tries. A question that runs out of tries is scored as not answered (N),
a separate class. inspect retries a failed request within the bounds set here; after that it is an error of its sample,
never a wrong answer. Other protocols that ask for texts are chosen by `-T protocol=chain_of_thought` and so on.

An exercise of a benchmark is asked once, greedily, and its answer is parsed by the benchmark's grammar. Malformed
answers score 0 and are counted (`valid`).
"""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

from inspect_ai import Task, task
from inspect_ai.dataset import MemoryDataset, Sample
from inspect_ai.model import (
    ChatMessage,
    GenerateConfig,
    ModelAPI,
    ModelOutput,
    ModelUsage,
    StopReason,
    get_model,
    modelapi,
)
from inspect_ai.scorer import (
    CORRECT,
    INCORRECT,
    NOANSWER,
    Metric,
    SampleScore,
    Score,
    Scorer,
    Target,
    Value,
    metric,
    scorer,
)
from inspect_ai.solver import Generate, Solver, TaskState, solver
from inspect_ai.tool import ToolChoice, ToolInfo

from hopscope.core import catalogue
from hopscope.core.intervals import wilson_of_mean
from hopscope.core.settings import BadInput, flag_of
from hopscope.formulations.base import Formulation, Question, Questions
from hopscope.formulations.base_draw import VERSION
from hopscope.language.backends.base import Backend, Sampling
from hopscope.language.backends.endpoint import Endpoint
from hopscope.language.backends.known import Known
from hopscope.language.benchmarking import Marking
from hopscope.language.benchmarks.base import Benchmark, Exercise
from hopscope.language.evaluation import shares
from hopscope.language.fields import Fields
from hopscope.language.layouts.base import Layout, Rendered
from hopscope.language.protocols.base import Protocol, Rule, text_in
from hopscope.language.turns import completion

#: inspect retries without limit by default; the command line overrides these bounds.
BOUNDS: dict[str, Any] = {"max_retries": 12, "timeout": 300, "attempt_timeout": 60}

#: inspect's names of fields that differ from those in OpenAI's protocol.
ITS_NAMES = {"stop": "stop_seqs"}

BENCHMARKS = "language.benchmarks"

#: Every question of the tasks made so far, by its prompt, for mock models to look up.
ASKED: dict[str, Question] = {}


def task_of(
    name: str,
    *,
    count: int = 120,
    seed: int = 0,
    layout: str = "chat",
    protocol: str = "resample",
    **own: Any,
) -> Task:
    """A formulation's questions 0 … count − 1 under a seed.

    `own` are its settings by their names on the command line, and the protocol's `max_tries`, `temperature` and
    `max_tokens`. Raises BadInput for others.
    """
    of_rule: dict[str, Any] = {one: own.pop(one) for one in ("max_tries", "temperature", "max_tokens") if one in own}
    chosen: Protocol = catalogue.chosen("language.protocols", protocol)
    chosen.rule.from_dict(of_rule)  # raises BadInput for settings that the rule lacks
    chosen = chosen.given(**of_rule)
    formulation: Formulation = made(catalogue.find("formulations", name), own)
    how = {"solver": as_protocol_asks(str(chosen)), "scorer": acceptable_answer()}
    return asking(formulation, range(count), seed, layout, chosen, **how)


def benchmark_task(
    name: str,
    *,
    count: int = 120,
    seed: int = 0,
    layout: str = "chat",
    lenient: bool = False,
    max_tokens: int | None = None,
    **own: Any,
) -> Task:
    """A benchmark's exercises 0 … count − 1 under a seed; `own` are its settings by their names on the command line."""
    benchmark: Benchmark = made(catalogue.find(BENCHMARKS, name), own)
    rule = Marking(benchmark.MAX_TOKENS if max_tokens is None else max_tokens)
    how = {"solver": likeliest_text(rule.max_tokens), "scorer": marks(lenient)}
    return asking(benchmark, range(count), seed, layout, rule, **how)


def named(name: str, make: Callable[..., Task]) -> Callable[..., Task]:
    """The task of a formulation or a benchmark in inspect's registry, made by `task_of` or `benchmark_task`."""

    def settled(**settings: Any) -> Task:
        return make(name, **settings)

    settled.__name__ = name
    return task(settled)


#: The tasks of inspect: each formulation and each benchmark, as functions of this module, by name.
TASKS = {name: named(name, task_of) for name in catalogue.names("formulations")}
TASKS |= {name: named(name, benchmark_task) for name in catalogue.names(BENCHMARKS)}
globals().update(TASKS)


def asking(source: Questions, numbers: Iterable[int], seed: int, layout: str, protocol: Protocol, **how: Any) -> Task:
    """Questions as a task, changed by a protocol; `how` has the solver and the scorer."""
    shown: Layout = catalogue.find("language.layouts", layout)()
    samples = [sample(source, protocol, shown, seed, index) for index in numbers]
    dataset = MemoryDataset(samples, name=source.name())
    return Task(dataset=dataset, config=GenerateConfig(**BOUNDS), version=VERSION, **how)


K = TypeVar("K", bound=Questions)


def made(kind: type[K], own: Mapping[str, Any]) -> K:
    """A formulation or a benchmark, with settings by their names on the command line. Raises BadInput."""
    fields = {flag_of(field): field.name for field in dataclasses.fields(kind)}
    return kind.from_dict({fields.get(flag.replace("_", "-"), flag): value for flag, value in own.items()})


def sample(formulation: Questions, protocol: Protocol, layout: Layout, seed: int, index: int) -> Sample:
    """One question, with the settings it is made from. Raises BadInput for a layout other than chat."""
    put = protocol.put(formulation)
    question = put.question(seed, index)
    rendered = layout.render(put, question)
    ASKED[rendered.text] = question
    if not rendered.chat:
        raise BadInput(
            f"inspect asks by chat messages, and the layout {layout.name()!r} is a text to be continued; use "
            f"layout=chat, or hopscope lm evaluate --layout {layout.name()}"
        )
    made_from = {"formulation": formulation.name(), "settings": formulation.as_dict(), "seed": seed, "index": index}
    more = {"acceptable": list(question.acceptable), "stop": list(rendered.stop)}
    return Sample(input=rendered.text, target=question.answer, id=f"{seed}-{index}", metadata=made_from | more)


def question_of(made_from: Mapping[str, Any]) -> Question:
    """The question of a sample, made again from its metadata."""
    name = made_from["formulation"]
    folder = BENCHMARKS if name in catalogue.names(BENCHMARKS) else "formulations"
    kind: type[Questions] = catalogue.find(folder, name)
    return kind.from_dict(made_from["settings"]).question(made_from["seed"], made_from["index"])


@solver
def as_protocol_asks(protocol: str) -> Solver:
    """Ask as a protocol of `hopscope lm evaluate` does, with its seeds and its rule. Raises BadInput for scores."""
    rule: Rule = catalogue.chosen("language.protocols", protocol).rule
    if rule.scores:
        raise BadInput(f"inspect asks for texts, and {protocol} for probabilities; use hopscope lm evaluate")
    return asked_by(rule)


@solver
def likeliest_text(max_tokens: int) -> Solver:
    """Ask once, greedily, as `hopscope lm evaluate --benchmark` does."""
    return asked_by(Marking(max_tokens))


def asked_by(protocol: Rule) -> Solver:
    """Ask by a rule and judge, without fields that the provider has refused."""
    learned: dict[str, Fields] = {}

    async def solve(state: TaskState, generate: Generate) -> TaskState:
        question, stop, asked = question_of(state.metadata), state.metadata["stop"], list(state.messages)
        fields = learned.setdefault(str(get_model()), Fields(str(get_model())))
        answers: list[dict[str, Any]] = []
        while protocol.wants_more(question, answers):
            how = protocol.sampling(question, len(answers))
            wanted = {"temperature": how.temperature, "max_tokens": how.max_tokens, "seed": how.seed, "stop": stop}
            state.output = await written(asked, wanted, fields)
            answers.append(read(state.output, stop))
        judged = protocol.judge(question, answers)
        for name in ("label", "tries", "accepted", "run_out"):
            state.store.set(name, getattr(judged, name))
        state.store.set("left_out", (state.output.metadata or {}).get("left_out", fields.left_out))
        state.messages = [*asked, state.output.message]
        return state

    return solve


async def written(messages: list[ChatMessage], wanted: Mapping[str, Any], fields: Fields) -> ModelOutput:
    """The model's output; a field that its provider refuses is left out in the next try.

    Raises BadInput for an answer that inspect's client cannot parse, such as content in parts.
    """
    while True:
        sent = fields.taken(wanted)
        config = {ITS_NAMES.get(name, name): value for name, value in sent.items() if name in wanted and value != []}
        config["extra_body"] = {name: value for name, value in sent.items() if name not in wanted} or None
        try:
            return await get_model().generate(messages, config=GenerateConfig(**config))
        except RuntimeError as refusal:  # inspect's own subclass is private
            said = f"{getattr(refusal, 'provider_message', '')} {getattr(refusal.__cause__, 'body', '')}"
            if not fields.learn(said) and fields.taken(wanted) == sent:  # a parallel sample may have learned it first
                raise
        except TypeError as error:
            raise BadInput(
                f"inspect's client cannot read what {get_model()} answers ({error}); hopscope's own can: "
                f"--model hopscope/{get_model().name}"
            ) from error


def read(output: ModelOutput, stop: Sequence[str]) -> dict[str, Any]:
    """An output as `hopscope lm evaluate` reads it, because some of inspect's providers leave thoughts in the text."""
    reason = "length" if output.stop_reason in ("max_tokens", "model_length") else ""
    return completion(output.completion, reason, stop=stop).said


# Metrics are those in the table of `hopscope lm evaluate`; inspect's own accuracy would count run-outs as wrong.
# They are not lambdas, because inspect needs their annotations.


@metric
def accuracy() -> Metric:
    """The share of right answers among the acceptable ones, with its 95 % interval (Wilson)."""

    return partial(in_table, ("accuracy", "low", "high"))


@metric
def form() -> Metric:
    """The share of tries with an acceptable answer, tries per answered question, and questions out of tries."""

    return partial(in_table, ("valid", "tries", "run_outs"))


def in_table(names: Sequence[str], scores: list[SampleScore]) -> Value:
    """Some numbers of the row in table.csv."""
    counts = (sum(about(score)[name] for score in scores) for name in ("answered", "correct", "tries", "accepted"))
    row = shares(len(scores), *counts)
    return {name: row[name] for name in names}


def about(score: SampleScore) -> dict[str, Any]:
    """The metadata that a scorer has kept."""
    return score.score.metadata or {}


@scorer(metrics=[accuracy(), form()])
def acceptable_answer() -> Scorer:
    """C for the right answer, I for another, N for a question out of tries or with thoughts that were cut off."""

    async def score(state: TaskState, target: Target) -> Score:
        label = state.store.get("label")
        run_out = state.store.get("run_out")
        value = NOANSWER if run_out else CORRECT if label == target.text else INCORRECT
        kept = {name: state.store.get(name) for name in ("tries", "accepted", "left_out")}
        kept |= {"answered": not run_out, "correct": value == CORRECT}
        return Score(value=value, answer=label, explanation=state.output.completion, metadata=kept)

    return score


@metric
def means() -> Metric:
    """Each measure's mean over all exercises with its 95 % interval, and the share of answers in the right format."""

    def measure(scores: list[SampleScore]) -> Value:
        intervals: dict[str, float] = {}
        for name in about(scores[0]) if scores else ():
            values = [float(about(score)[name]) for score in scores]
            low, high = wilson_of_mean(values)
            intervals |= {name: sum(values) / len(values), f"{name}_low": low, f"{name}_high": high}
        return intervals

    return measure


@scorer(metrics=[means()])
def marks(lenient: bool = False) -> Scorer:
    """A benchmark's first measure as the value, all measures as metadata; a malformed answer scores 0."""

    async def score(state: TaskState, target: Target) -> Score:
        exercise = question_of(state.metadata)
        assert isinstance(exercise, Exercise)
        text = text_in(read(state.output, state.metadata["stop"]))
        mark = exercise.mark(text, lenient)
        kept = {**mark.measures, "valid": float(mark.valid)}
        return Score(value=next(iter(mark.measures.values())), answer=text, explanation=target.text, metadata=kept)

    return score


@modelapi(name="hopscope")
class AskedModel(ModelAPI):
    """A model that is asked as by `hopscope lm evaluate`, for servers whose answers inspect's clients cannot parse.

    `hopscope/NAME` is the model at `model_base_url`; `hopscope/known:oracle` is a mock model with known answers.
    """

    def __init__(self, model_name: str, base_url: str | None = None, *args: Any, **more: Any):
        super().__init__(model_name, base_url, *args, **more)
        behaviour = model_name.removeprefix("known:")
        known = Known(behaviour) if behaviour != model_name else None
        if known is not None:
            known.questions = ASKED
        self.backend: Backend = known or Endpoint(base_url or "", model_name)

    async def generate(
        self, input: list[ChatMessage], tools: list[ToolInfo], tool_choice: ToolChoice, config: GenerateConfig
    ) -> ModelOutput:
        """The answer to one message. It states a token usage, because inspect would fetch a tokenizer to count it."""
        if len(input) != 1 or tools:
            raise BadInput("the model hopscope answers one message, without tools, as hopscope's own tasks ask it to")
        asked = Rendered(input[0].text, True, (), (), tuple(config.stop_seqs or ()))
        how = Sampling(config.temperature or 0.0, config.max_tokens or 32, config.seed or 0)
        [text] = await asyncio.to_thread(self.backend.generate, [asked], [how])
        ended: StopReason = "max_tokens" if text.finish_reason == "length" else "stop"
        output = ModelOutput.from_content(self.model_name, text, ended)
        output.usage = ModelUsage(input_tokens=1, output_tokens=1, total_tokens=2)
        output.metadata = {"left_out": list(text.left_out)}
        return output
