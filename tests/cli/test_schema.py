"""docs/schema.md names every field of every file and of every --json output, and none that there is not."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pandas
import pytest
import safetensors.torch

from hopscope.cli import hopscope as root, main
from hopscope.cli.options import PerVariant
from hopscope.configuration.presets import RECIPES
from hopscope.runs.importing import to_transformer_lens
from hopscope.runs.run import SHIPPED, Run
from tests.brief_reports import brief_reports  # noqa: F401
from tests.pictures import drawn_once  # noqa: F401
from tests.small_runs import trained

PAGE = Path(__file__).parents[2] / "docs" / "schema.md"
RESULTS = Path(__file__).parents[2] / "hopscope_studies"
SOME = RESULTS / "facts" / "results"  # whose claims have every field

SMALL = "--hops 1 --chains 2 --layers 1 --d-model 8 --batch 4 --val-size 4"
SEARCH = "--discovery 8 --selection 8 --report 8"
#: Every --json output that takes seconds at most, by the heading under which the page describes it.
COMMANDS = {
    "list": "list",
    "sample": "sample retrieval",
    "train": f"train retrieval {SMALL} --steps 2 --out run",
    "train --dry-run": f"train retrieval {SMALL} --steps 2 --out other --dry-run",
    "show": "show run",
    "draw": "draw run",
    "runs": "runs run",
    "verify": "verify run",
    "build": "build 1 --out built",
    "circuit": f"circuit built {SEARCH} --out found",
    "circuit --dry-run": "circuit packaged --dry-run",
    "circuit --seeds": f"circuit built {SEARCH} --alternatives 1 --seeds 2 --out seeds",
    "circuit --unit": "circuit built --unit nodes --discovery 8 --report 8 --out nodes",
    "circuit --unit --dry-run": "circuit packaged --unit nodes --dry-run",
    "demo": "demo --out little --threads 1",  # of few steps: see the fixture
    "import": "import weights.safetensors --task retrieval --hops 1 --chains 2 --positions learned --out imported",
    "emerge": "emerge packaged --n 8 --path L3H0_query->value[2] --out emerged",
    "emerge --all": "emerge packaged --n 8 --all --out all",
    "depth": "depth 2",
    "ask": "ask equations",
    "ask --export": "ask equations --export asked",
    "ask BENCHMARK": "ask induction_bench",
    "evaluate": "evaluate --model known:oracle --count 3 --layout code --out evaluated",
    "evaluate --dry-run": "evaluate --model known:oracle --count 3 --layout code --dry-run --price 1 2 --speed 10 20",
    "evaluate --benchmark": "evaluate --benchmark induction_bench --model known:oracle --count 3 --out benchmarked",
    "reproduce": "reproduce fig2 --scale quick",
    "reproduce --dry-run": "reproduce curriculum --dry-run",
    "reproduce --list": "reproduce --list",
    "sweep": "sweep fig2 --scale quick --engine stacked",
    "sweep --dry-run": "sweep curriculum --dry-run",
    "report": f"report --results {SOME}",
    "board": "board",
    "doctor": "doctor",
}
#: Flags that change what is done, or what people see, and no field: where another command shows it, with its heading.
SAME = {
    "runs --compare": ("runs run --compare", "runs"),
    "verify --write": ("verify run --write", "verify"),
    "report --studies": (f"report --studies --results {SOME}", "report"),
    "report --all-studies": (f"report --all-studies --results {SOME}", "report"),
    "report --paper": (f"report --paper --results {SOME}", "report"),
    "report --markdown": (f"report --markdown --results {SOME}", "report"),
    "evaluate --wide": ("evaluate --wide --model known:oracle --count 3 --layout code --out evaluated", "evaluate"),
}
#: The same of flags that need an endpoint, delete, or take long; and of choices of how something is computed.
UNTRIED = {"runs --delete", "runs --yes", "evaluate --first-token", "report --redraw", "emerge --streamed"} | {
    "board --add",
    "board --by",
    "board --d-symbol",
    "board --how",
    "board --no-curriculum",
    "board --no-prior",
    "build --task",
    "depth --mask",
    "depth --heads",
    "emerge --null",
    "import --mask",
    "import --positions",
    "train --compile",
    "train --mirror",
}
#: Commands that take minutes: a file that each wrote, and that holds what it prints.
WRITTEN = {
    "heads": RESULTS / "stacked_heads" / "results" / "heads_smollm2" / "heads.json",
    "heads --circuit": RESULTS / "real_hop" / "results" / "circuit_smollm2" / "circuit.json",
    "heads --needles": RESULTS / "retrieval_heads" / "results" / "needles_smollm2" / "retrieval.json",
}
FILES = {
    "config.json": "run/config.json",
    "sessions.jsonl": "run/sessions.jsonl",
    "metrics.jsonl": "run/metrics.jsonl",
    "report.json": "run/report.json",
    "manifest.json": "run/manifest.json",
    "truth.json": "built/truth.json",
    "circuit.json": "found/circuit.json",
    "hypotheses.jsonl": "found/hypotheses.jsonl",
    "emergence.json": "emerged/emergence.json",
    "records.jsonl": "evaluated/records.jsonl",
    "table.csv of an evaluation": "evaluated/table.csv",
    "benchmarks.csv": "benchmarked/benchmarks.csv",
    "claims.json": "runs/quick-results/fig2/claims.json",
}
#: Objects whose names are data: hops, settings, losses, files and so on. Their values are described once, as `NAME`.
NAMED = re.compile(
    r"(^|\.)(hop_losses|files|settings|task|model|training|origin|environment|loss|loss\[\]|interval|accuracy"
    r"|accuracy_interval|seconds|labels|finish_reasons|top|lag_curves|identity|registers|protocol|request|layout|backend|said|circuits"
    r"|held|hops|order|first_order|hop_effects|measures|masking\.heads)$"
)
#: Those whose values are objects of their own.
NAMED_OBJECTS = re.compile(r"(^|\.)(units|curves)$")
#: Objects that stand in many places, described once under these headings.
SHARED = {
    "path": {"layer", "head", "query", "key", "chain"},
    "onset": {"status", "step", "low", "high", "after", "by", "falls"},
    "estimate": {"mean", "low", "high"},
    "share": {"faithfulness", "low", "high"},
    "scored": {"head", "score"},
}


def fields(value: Any, path: str = "") -> Iterator[str]:
    """Names of all fields within a value, such as `paths[].layer`."""
    if isinstance(value, list):
        for part in value:
            yield from fields(part, f"{path}[]")
    elif isinstance(value, dict) and {*value} not in SHARED.values():
        for name, part in value.items():
            described = NAMED_OBJECTS.search(path)
            named = described or NAMED.search(path)
            below = f"{path}.{'NAME' if named else name}".lstrip(".")
            yield below
            if described or not named:
                yield from fields(part, below)


def read(path: Path) -> Any:
    if path.suffix == ".csv":
        return dict.fromkeys(pandas.read_csv(path).columns)
    if path.suffix == ".jsonl":
        return [json.loads(line) for line in path.read_text().splitlines()]
    return json.loads(path.read_text())


@pytest.fixture(scope="module")
def outputs(tmp_path_factory) -> dict[str, Any]:
    """What every command prints, and what the files hold that they wrote."""
    import contextlib
    import io
    import os

    folder, before, recipe = tmp_path_factory.mktemp("outputs"), Path.cwd(), RECIPES["demo"]
    training = {"steps": 3, "batch": 4, "val_size": 8, "log_every": 1, "checkpoints": "1", "dtype": "float32"}
    RECIPES["demo"] = recipe._replace(model={"n_layers": 1, "n_heads": 1, "d_model": 16}, training=training)
    os.chdir(folder)
    found = {}
    try:
        for name, line in (COMMANDS | {name: line for name, (line, _) in SAME.items()}).items():
            out = io.StringIO()
            with contextlib.redirect_stdout(out), contextlib.redirect_stderr(io.StringIO()) as err:
                code = main([*(word.replace("_query", " query") for word in line.split()), "--json"])
            assert code == 0, (name, err.getvalue())
            found[name] = json.loads(out.getvalue())
            if name == "train":
                safetensors.torch.save_file(to_transformer_lens(Run("run").model), "weights.safetensors")
        found |= {name: read(folder / path) for name, path in FILES.items()}
        found |= {name: read(path) for name, path in WRITTEN.items()}
    finally:
        os.chdir(before)
        RECIPES["demo"] = recipe
    return found


def described() -> dict[str, set[str]]:
    """The fields of each heading of the page."""
    found: dict[str, set[str]] = {}
    for part in re.split(r"^### ", PAGE.read_text(), flags=re.MULTILINE)[1:]:
        title, _, text = part.partition("\n")
        same = re.search(r"^As `(.+?)`", text, re.MULTILINE)  # `runs`: a heading above
        rows = re.findall(r"^\| `([^`]+)` \|", text, re.MULTILINE)
        within = re.findall(r"^\| `([^`]+)` \| as `([^`]+)` \|", text, re.MULTILINE)
        # Of what is nested, as much as is there: which fields that can be is tested where they are described.
        rows += [f"{field}.{inner.rstrip('?')}?" for field, other in within for inner in found[other]]
        found[title.strip().strip("`")] = ({*found[same[1]]} if same else set()) | {*rows}
    return found


def commands(group: click.Group, *path: str) -> Iterator[tuple[str, click.Command]]:
    """Every command, of those with a task or the like as argument one form."""
    for name in group.list_commands(context := click.Context(group)):
        found = group.get_command(context, name)
        assert found is not None
        if isinstance(found, click.Group):
            yield from commands(found, *path, name)
        elif isinstance(group, PerVariant):
            yield " ".join(path), found
            return
        else:
            yield " ".join([*path, name]), found


def printed_as_json() -> Iterator[str]:
    """Everything that prints JSON: commands with --json, alone and with each flag that may change what they print."""
    for called, command in commands(root):
        name = called.removeprefix("lm ")  # under which the page describes it
        options = [option for option in command.params if isinstance(option, click.Option)]
        flags = [o for o in options if (o.is_flag and not o.secondary_opts) or isinstance(o.type, click.Choice)]
        if any("--json" in flag.opts for flag in flags):
            yield name
            yield from (
                f"{name} {flag.opts[0]}" for flag in flags if flag.opts[0] not in ("--json", "--open", "--progress")
            )


def test_every_output_is_described():
    """A command, or a flag, that is added prints something that the page says, or this fails."""
    known = {*COMMANDS, *SAME, *UNTRIED, *WRITTEN}
    assert [name for name in printed_as_json() if name not in known] == []
    assert len({*printed_as_json()}) > 25


@pytest.mark.parametrize("name", SAME)
def test_flags_for_people_change_no_field(outputs, name):
    told = {field.rstrip("?") for field in described()[SAME[name][1]]}
    assert {*fields(outputs[name])} <= told


@pytest.mark.parametrize("name", [*COMMANDS, *FILES, *WRITTEN])
def test_the_page_has_every_field_and_none_that_there_is_not(outputs, name):
    there, told = {*fields(outputs[name])}, described()[name]
    optional = {field for field in told if field.endswith("?")}
    assert there - {field.rstrip("?") for field in told} == set(), "not on the page"
    assert told - optional - there == set(), "only on the page"


@pytest.mark.parametrize("name", SHARED)
def test_what_stands_in_many_places_is_described_once(name):
    assert described()[name] == SHARED[name]


def test_no_text_in_an_output_is_json_itself(outputs):
    def texts(value):
        if isinstance(value, str):
            yield value
        for part in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
            yield from texts(part)

    for name in COMMANDS:
        for text in texts(outputs[name]):
            assert not re.match(r"\s*[\[{].*[\]}]\s*$", text, re.DOTALL), (name, text[:200])


def test_the_shipped_demo_is_as_described():
    for name in ("config.json", "report.json", "metrics.jsonl", "sessions.jsonl"):
        there = {*fields(read(SHIPPED / name))}
        assert there <= {field.rstrip("?") for field in described()[name]}


def test_small_runs_are_too(tmp_path):
    run = trained(tmp_path / "run", measures="attention_on_path", stop_accuracy=1.0)
    assert {*fields(read(run.path / "metrics.jsonl"))} <= {f.rstrip("?") for f in described()["metrics.jsonl"]}
