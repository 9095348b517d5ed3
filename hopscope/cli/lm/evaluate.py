"""`hopscope lm evaluate`: language models on the retrieval problem in words, and on benchmarks."""

from __future__ import annotations

import hashlib
import itertools
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import click

from hopscope.cli.answer_tables import as_table, benchmark_table, cost_lines
from hopscope.cli.given import given_here, refuse_beside
from hopscope.cli.lm.ask import MOST
from hopscope.cli.options import (
    Between,
    SeveralCommand,
    as_json,
    console,
    out_option,
    pick,
    print_json,
    progress,
    say,
    several,
    threads_option,
)
from hopscope.core import catalogue
from hopscope.core.places import check_out
from hopscope.core.settings import BadInput
from hopscope.core.strangers import json_of
from hopscope.core.terminal import Narrator, counting_bar
from hopscope.formulations.base import Formulation, Questions
from hopscope.language.backends.base import Backend, Unreachable
from hopscope.language.benchmarking import PROTOCOLS, BenchmarkCell, marking, write_rows
from hopscope.language.benchmarks.base import Benchmark
from hopscope.language.costs import cost_of
from hopscope.language.evaluation import Cell as AskedCell, Evaluation, Watch, none_for_nan, write_table
from hopscope.language.fields import FIELDS
from hopscope.language.layouts.base import Layout
from hopscope.language.opening import open_backend
from hopscope.language.protocols.base import Protocol
from hopscope.language.protocols.resample import Resample
from hopscope.language.records import Records

Cell = tuple[Questions, Layout, Protocol]
Row = dict[str, Any]
RULES = "language.protocols"
PRICE, SPEED = Between(0, 1e9), Between(0, 1e9, min_open=True)


@click.command(
    "evaluate",
    cls=SeveralCommand,
    common=("model", "formulation", "benchmark", "hops", "layout", "protocol", "count", "seed", "threads", "out"),
    help="Ask language models questions of the paper's section 4, score the answers, and keep every one of them. "
    "Options with several values take them one after the other: --hops 1 2 3.",
)
@several(
    "--model",
    default=("smollm2",),
    help="smollm2, gemma3-270m, a folder, a GGUF file, a hub name, an http(s) address, or a mock model (known:oracle).",
)
@click.option("--endpoint-model", metavar="NAME", help="The model's name at the address.")
@click.option("--first-token", is_flag=True, help="At an address: score by the first token's alternatives.")
@several("--omit", help=f"At an address: fields that are not sent, of {', '.join(FIELDS)}.")
@several("--formulation", default=("equations",), help="As 'hopscope list' names them.")
@several(
    "--benchmark",
    help="A benchmark instead of formulations, with settings: 'induction_bench(k=3)'. The default protocol is then "
    "greedy_strict.",
)
@several("--hops", type=int, help="D  [default: the formulation's]")
@click.option("--chains", type=int, help="N  [default: the formulation's, 4]")
@several("--layout", default=("chat", "code"), help="chat, raw, code or few_shot.")
@several(
    "--protocol",
    default=("log_likelihood",),
    help="log_likelihood, greedy_strict, greedy_lenient, resample (the paper's), filler_tokens, repeated_problem or "
    "chain_of_thought, with settings: 'filler_tokens(n_numbers=100, by=log_likelihood)'.",
)
@click.option("--shots", "n_shots", type=int, help="Solved questions, for few_shot  [default: 4]")
@click.option("--max-tries", type=int, help="For resample  [default: 10]")
@click.option("--temperature", type=float, help="For resample  [default: 1]")
@click.option("--max-tokens", type=int, help="Of an answer  [default: 32, in chain_of_thought 1024; the benchmark's]")
@click.option("--count", type=click.IntRange(1, MOST), default=120, show_default=True, help="Questions (paper: 500).")
@click.option("--seed", type=int, default=0, show_default=True, help="Of questions and sampling.")
@click.option(
    "--timeout",
    type=Between(0.01, 86_400),
    metavar="SECONDS",
    help="At an address: how long one request may take  [default: 60]; after four times as long without any answer "
    "the address is given up.",
)
@click.option("--dtype", default="float32", show_default=True, help="Of a model in this process.")
@threads_option("Of a model in this process  [default: all cores]")
@out_option("Where answers and the table are kept  [default: evaluations/MODEL]")
@click.option("--wide", is_flag=True, help="Show every column of the table.")
@click.option("--dry-run", is_flag=True, help="Only say how many requests and tokens it would take; nothing is asked.")
@click.option(
    "--price", type=(PRICE, PRICE), metavar="IN OUT", help="Of a million tokens read and written: say the cost."
)
@click.option("--speed", type=(SPEED, SPEED), metavar="IN OUT", help="Tokens a second, read and written: say the time.")
@progress
@as_json
def command(out: Path | None, as_json: bool, wide: bool, dry_run: bool, **given: Any) -> None:
    """Ask every model in every cell, and print the table."""
    if out is not None:
        check_out(out, tables=True)
    given["protocol"] = PROTOCOLS[:1] if given["benchmark"] and not given_here("protocol") else given["protocol"]
    check_of_use(given)
    settings = Evaluation(count=given["count"], seed=given["seed"])
    cells = list(benchmark_cells(given) if given["benchmark"] else cells_of(given))
    if dry_run or given["price"] or given["speed"]:
        costs = [row for name in given["model"] for row in costs_of(name, cells, settings, given)]
        if dry_run and as_json:
            print_json(costs)
        else:
            say("\n".join(cost_lines(costs)), err=not dry_run)
    if dry_run:
        return
    rows: list[Row] = []
    unreached: list[str] = []
    for name in given["model"]:
        try:
            found, reason = ask_model(name, cells, settings, out, given)
        except Unreachable as error:  # it did not even give its name
            found, reason = [], str(error)
        rows += found
        unreached += [reason] if reason else []
    if as_json:
        print_json([as_value(row) for row in rows])
    else:
        tables: dict[tuple[str, bool], list[Row]] = {}  # a separate table for chains of thought
        for row in rows:
            tables.setdefault((row["model"], catalogue.chosen(RULES, row["protocol"]).direct), []).append(row)
        for about in tables.values():
            console().print(benchmark_table(about) if given["benchmark"] else as_table(about, wide))
    if unreached:
        kept_so_far = "what was answered is kept, and the same command goes on"
        goes_on = kept_so_far if any(row["n"] for row in rows) else "the same command asks again"
        say(f"hopscope: {unreached[0]}; {goes_on}", err=True)
        raise click.exceptions.Exit(1)


def costs_of(name: str, cells: Sequence[Cell], settings: Evaluation, given: dict[str, Any]) -> Iterator[Row]:
    """Upper bounds of the costs of each cell for a model; a server is not even asked for its model's name."""
    price, speed = given["price"], given["speed"]
    with closing(opened(name, given | {"endpoint_model": given["endpoint_model"] or name})) as backend:
        for cell in asked_of(backend, cells):
            counted = cost_of(AskedCell(backend, *cell, settings))
            yield {
                "model": name,
                "question": titled(cell[0]),
                "asked": f"{cell[1].name()}, {cell[2].title}",
                **counted._asdict(),
                "price": price and counted.at(*price) / 1e6,
                "seconds": speed and counted.at(1 / speed[0], 1 / speed[1]),
            }


def check_of_use(given: dict[str, Any]) -> None:
    """Raise BadInput for options that have no effect on any model, layout or protocol that is chosen."""
    kinds = {name.partition(":")[0] for name in given["model"]}
    if not kinds & {"http", "https"}:
        refuse_beside("is for models at an address", "endpoint_model", "first_token", "timeout", "omit")
    if kinds <= {"http", "https", "known"}:
        refuse_beside("is for models in this process", "dtype")
    if "few_shot" not in given["layout"]:
        refuse_beside("is for the layout few_shot", "n_shots")
    rules = [catalogue.chosen(RULES, text).rule for text in given["protocol"]]
    if not (given["benchmark"] or any(isinstance(rule, Resample) for rule in rules)):
        refuse_beside("is for the protocol resample", "max_tries", "temperature")
    if all(rule.scores for rule in rules):
        refuse_beside("is for protocols in which the model writes, such as greedy_strict", "max_tokens")


def cells_of(given: dict[str, Any]) -> Iterator[Cell]:
    """All combinations of formulation, layout and protocol; a chain of thought only in chat. Raises BadInput."""
    of_rules = {name: given[name] for name in ("max_tries", "temperature", "max_tokens") if given[name] is not None}
    protocols = [catalogue.chosen(RULES, text).given(**of_rules) for text in given["protocol"]]
    thinks = [protocol.title for protocol in protocols if not protocol.direct]
    if thinks and "chat" not in given["layout"]:
        raise BadInput(f"{thinks[0]} needs a reply with room for thoughts; add --layout chat")
    questions = [one for name in given["formulation"] for one in worded(name, given)]
    if not questions:
        raise BadInput(f"no question of {', '.join(given['formulation'])} is left; choose other --hops or --chains")
    for formulation, layout, protocol in itertools.product(questions, given["layout"], protocols):
        if protocol.direct or layout == "chat":
            yield formulation, pick(catalogue.find("language.layouts", layout), given), protocol


def worded(name: str, given: dict[str, Any]) -> list[Formulation]:
    """A formulation with each number of hops. Raises BadInput for a number that it cannot express.

    If several formulations are chosen, such a number is left out with a message instead.
    """
    found: list[Formulation] = []
    for hops in given["hops"] or (None,):
        try:
            found.append(pick(catalogue.find("formulations", name), {"n_hops": hops, "n_chains": given["chains"]}))
        except BadInput as lacking:
            if len(given["formulation"]) == 1:
                raise
            say(f"hopscope: {name} with {hops} hops is left out: {lacking}", err=True)
    return found


def benchmark_cells(given: dict[str, Any]) -> Iterator[Cell]:
    """All combinations of benchmark, layout and protocol. Raises BadInput for options that benchmarks do not have."""
    what = "is not for benchmarks, whose settings stand behind their names: --benchmark 'induction_bench(k=3)'"
    refuse_beside(what, "formulation", "hops", "chains", "max_tries", "temperature")
    for name, layout, protocol in itertools.product(given["benchmark"], given["layout"], given["protocol"]):
        benchmark: Benchmark = catalogue.chosen("language.benchmarks", name)
        how = marking(protocol, benchmark, given["max_tokens"])
        yield benchmark, pick(catalogue.find("language.layouts", layout), given), how


def opened(name: str, given: dict[str, Any]) -> Backend:
    """Open a model; by default on all cores."""
    how = {option: given[option] for option in ("first_token", "timeout", "omit", "dtype")}
    threads = given["threads"] or os.cpu_count() or 1
    return open_backend(name, endpoint_model=given["endpoint_model"] or "", threads=threads, **how)


def ask_model(
    name: str, cells: Sequence[Cell], settings: Evaluation, out: Path | None, given: dict[str, Any]
) -> tuple[list[Row], str | None]:
    """A model's rows, as `ask_all`. Raises Unreachable if a server does not answer when its model is opened."""
    with Narrator(f"opening {name}"):
        backend = opened(name, given)
    with closing(backend):
        folder = out or Path("evaluations") / folder_name(backend.model)
        return ask_all(backend, asked_of(backend, cells), settings, folder)


def folder_name(model: str) -> str:
    """A valid folder name for a model: its name without special characters, cut to 200; a hash if none is left."""
    left = re.sub(r"[^\w.+@=-]", "-", model)[:200].lstrip(".")
    return left or f"model-{hashlib.sha256(model.encode(errors='replace')).hexdigest()[:8]}"


def asked_of(backend: Backend, cells: Sequence[Cell]) -> list[Cell]:
    """The cells that a model supports; a message names what is left out. Raises BadInput if no cell remains."""
    fit = [cell for cell in cells if backend.has_chat_template or cell[1].name() != "chat"]
    if not fit:
        raise BadInput(f"{backend.model} has no chat template; use --layout raw, code or few_shot")
    if len(fit) < len(cells):
        say(f"hopscope: {backend.model} has no chat template: the layout chat is left out", err=True)
    return fit


def ask_all(
    backend: Backend, cells: Sequence[Cell], settings: Evaluation, folder: Path
) -> tuple[list[Row], str | None]:
    """The rows of all cells, written after each cell, and the reason if the model could not be reached."""
    found: list[Row] = []
    for cell in cells if backend.context is not None else ():
        AskedCell(backend, *cell, settings).check_lengths()
    with Records.opened(folder) as records, counting_bar() as bar:
        for number, cell in enumerate(cells, 1):
            words = f"{backend.model} {number}/{len(cells)}: {titled(cell[0])} {cell[1].name()}"
            task = bar.add_task(words, total=settings.count)
            try:
                watch = lambda done, of, task=task: bar.update(task, completed=done, total=of)  # noqa: E731
                found += kept(folder, cell_rows(backend, cell, settings, records, watch))
            except Unreachable as reason:
                return found + kept(folder, cell_rows(backend, cell, settings, records, None)), str(reason)
    return found, None


def titled(source: Questions) -> str:
    """The name of a formulation with its hops, or of a benchmark."""
    return source.name() + (f" {source.n_hops}" if isinstance(source, Formulation) else "")


def cell_rows(backend: Backend, cell: Cell, settings: Evaluation, records: Records, watch: Watch | None) -> list[Row]:
    """A cell's row, or a row per measure of a benchmark; without a watch, from the kept answers only."""
    kind = BenchmarkCell if isinstance(cell[0], Benchmark) else AskedCell
    one = kind(backend, *cell, settings)
    return (one.told(records) if watch is None else one.run(records, watch)).rows


def kept(folder: Path, rows: list[Row]) -> list[Row]:
    """Write rows into their table, and return them."""
    (write_rows if "benchmark" in rows[0] else write_table)(folder, rows)
    return rows


SPELT = ("labels", "finish_reasons", "left_out", "settings", "identity")  # columns of table.csv that hold JSON


def as_value(row: dict[str, Any]) -> dict[str, Any]:
    """A row for JSON: NaN becomes null, and columns that hold JSON text become JSON values."""
    spelt = {name: json_of(row[name]) for name in SPELT if isinstance(row.get(name), str)}
    return {name: none_for_nan(value) for name, value in row.items()} | spelt
