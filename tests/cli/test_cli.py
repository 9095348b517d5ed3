"""The command line as users meet it: answers, exit codes, and one clear sentence for whatever cannot be."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import click
import pytest
import torch

from hopscope import load
from hopscope.cli import hopscope, main
from hopscope.cli.options import PerVariant
from hopscope.core import catalogue
from hopscope.runs.run import SHIPPED
from hopscope.tasks.retrieval import Retrieval

TINY = [
    "--hops",
    "1",
    "--chains",
    "2",
    "--layers",
    "1",
    "--d-model",
    "8",
    "--batch",
    "8",
    "--steps",
    "4",
    "--val-size",
    "8",
]


@pytest.fixture
def ask(capsys):
    """Run a command; returns its exit code, stdout and stderr."""

    def run(*arguments: object) -> tuple[int, str, str]:
        code = main([str(a) for a in arguments])
        return code, *capsys.readouterr()

    return run


@pytest.fixture(scope="module")
def tiny_run(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "tiny"
    assert main(["train", "retrieval", *TINY, "--out", str(folder)]) == 0
    return folder


def refused(result: tuple[int, str, str], *words: str) -> None:
    """Exit code 2 and one sentence, on stderr alone, that holds the words."""
    code, out, err = result
    assert (code, out) == (2, "")
    assert err.count("\n") == 1
    assert "Traceback" not in err
    for word in words:
        assert word in err


# Answers ------------------------------------------------------------------------------------------------------------


def test_every_command_takes_help(ask):
    names = catalogue.names("cli.commands")
    assert {"list", "sample", "train", "show", "draw", "reproduce", "report", "demo"} <= set(names)
    for name in names:
        code, out, _ = ask(name, "--help")
        assert code == 0
        assert "Usage: hopscope" in out


def test_every_setting_of_a_task_is_an_option_with_help(ask):
    code, out, _ = ask("train", "retrieval", "--help-all")
    assert code == 0
    for option in (
        "--hops",
        "--chains",
        "--order",
        "--layers",
        "--heads",
        "--d-model",
        "--batch",
        "--steps",
        "--no-mlp",
    ):
        assert option in out


def every_command() -> list[str]:
    """All commands; of those with variants all, each as it is called."""
    context = click.Context(hopscope)
    names = [*catalogue.names("cli.commands"), *(f"lm {name}" for name in catalogue.names("cli.lm"))]
    groups = {name: hopscope.get_command(context, name.removeprefix("lm ")) for name in names}
    inner = [
        f"{name} {one}" for name, g in groups.items() if isinstance(g, PerVariant) for one in g.list_commands(context)
    ]
    return [*names, *inner]


def test_help_shows_fifteen_options_and_says_where_the_others_are(ask):
    for command in every_command():
        code, out, _ = ask(*command.split(), "--help")
        options = re.findall(r"^  (?:-h, )?--[a-z-]+", out, re.MULTILINE)
        assert code == 0 and len(options) <= 15 and "-h, --help" in out, command
        if "--help-all" in out:
            every = re.findall(r"^  (?:-h, )?--[a-z-]+", ask(*command.split(), "--help-all")[1], re.MULTILINE)
            assert len(every) > 15 and set(options) < set(every), command


@pytest.mark.parametrize("command", ["ask", "evaluate", "heads"])
def test_commands_about_language_models_answer_to_their_old_names(ask, command):
    code, out, _ = ask(command, "--help")
    assert (code, out.split("\n")[1:]) == (0, ask("lm", command, "--help")[1].split("\n")[1:])
    assert not re.search(rf"^  {command} ", ask("--help")[1], re.MULTILINE)


def test_lists_fit_on_a_screen_and_tell_more_when_asked(ask):
    for command in (["list"], ["reproduce", "--list"]):
        lines = ask(*command)[1].splitlines()
        assert len(lines) <= 24 and max(map(len, lines)) <= 80
    code, out, _ = ask("list", "presets")
    assert code == 0 and "three_hops\n    D = 3" in out
    assert "    The retrieval problem" in ask("list", "tasks")[1] and ask("list", "task")[0] == 2
    code, out, _ = ask("reproduce", "fig5", "--list")
    assert code == 0 and "paper 11 h" in out and "every_path_is_needed" in out and max(map(len, out.splitlines())) <= 80
    assert ask("reproduce", "nothing", "--list")[0] == 2


@pytest.mark.parametrize("columns", ["1", "10"])
def test_a_list_fits_on_the_narrowest_screen(ask, monkeypatch, columns):
    monkeypatch.setenv("COLUMNS", columns)
    code, out, err = ask("list")
    assert (code, err) == (0, "") and "tasks" in out


def test_list_as_json(ask):
    code, out, _ = ask("list", "--json")
    listed = json.loads(out)
    assert code == 0
    assert {"tasks", "attention", "measures", "experiments", "formulations"} <= listed.keys()
    assert {v["name"] for v in listed["tasks"]} >= {
        *("retrieval", "conditional_retrieval", "symbolic_retrieval", "induction", "hop_k"),
    }
    assert all(v["summary"] for variants in listed.values() for v in variants)


@pytest.mark.parametrize("order", ["deepest_first", "nearest_first", "shuffled", "3,1,2"])
@pytest.mark.parametrize("curriculum", ["implicit", "none"])
def test_sample_as_json_holds_together(ask, order, curriculum):
    """Inputs and targets can be rebuilt from facts and answers: values are read off inputs where symbols stand."""
    arguments = ("--hops", 3, "--chains", 4, "--order", order, "--curriculum", curriculum, "--seed", 0, "--json")
    code, out, _ = ask("sample", "retrieval", *arguments)
    sample = json.loads(out)
    assert code == 0
    assert len(sample["facts"]) == 12 and len(sample["queries"]) == 4
    tokens = [name for premises, conclusion in sample["facts"] for name in (*premises, conclusion)] + sample["queries"]
    assert len(tokens) == len(sample["inputs"]) == len(sample["roles"]) == 28
    vector = {}
    for name, features in zip(tokens, sample["inputs"], strict=True):
        assert vector.setdefault(name, features[:4]) == features[:4]
    after = {premises[0]: conclusion for premises, conclusion in sample["facts"]}
    for query, answers, target in zip(sample["queries"], sample["answers"], sample["targets"], strict=True):
        assert answers == [after[query], after[after[query]], after[after[after[query]]]]
        asked = answers if curriculum == "implicit" else answers[-1:]
        assert target == [x for name in asked for x in vector[name]]


def test_sample_as_a_table(ask):
    code, out, _ = ask("sample", "retrieval", "--hops", 3, "--chains", 4, "--order", "deepest_first", "--seed", 0)
    assert code == 0
    problem = Retrieval(n_hops=3, order="deepest_first").sample(1, 0).problem(0)
    for query in problem.queries:
        assert f"query {query}  leads to  {' → '.join(problem.successors(query))}" in out
    assert "value[3]" in out


def test_sample_names_symbols_whatever_their_positions_add(ask):
    _, out, _ = ask("sample", "retrieval", "--position-code", "token_and_before")
    assert all(name in out.split("query")[0] for name in (" a0 ", " a1 ", " b2 "))
    _, wide, _ = ask("sample", "item_labels")
    assert "l0" in wide and "…" in wide


def test_training_again_finds_the_run(ask, tiny_run):
    stamp = (tiny_run / "DONE").stat().st_mtime_ns
    code, out, _ = ask("train", "retrieval", *TINY, "--out", tiny_run)
    assert code == 0
    assert "already finished" in out
    assert (tiny_run / "DONE").stat().st_mtime_ns == stamp


def test_show_as_json(ask, tiny_run):
    code, out, _ = ask("show", tiny_run, "--json")
    summary = json.loads(out)
    assert code == 0
    keys = {"config", "done", "step", "loss", "hop_losses", "parameters", "seconds", "bit_exact"}
    assert keys <= summary.keys()
    assert summary["done"] and summary["step"] == 4 and summary["bit_exact"]
    assert summary["parameters"] == sum(p.numel() for p in load(tiny_run).model.parameters())
    assert summary["config"]["task"]["n_hops"] == 1


def test_show_for_people(ask, tiny_run):
    code, out, _ = ask("show", tiny_run)
    assert code == 0
    assert "not learnt" in out
    assert "right step, no chain followed" in out


def test_a_hop_that_nothing_asked_for_is_shown_as_such(ask, tmp_path):
    """Its loss is null in report.json; a run of before there were manifests is read as it is."""
    shutil.copytree(SHIPPED, tmp_path / "run")
    (tmp_path / "run" / "manifest.json").unlink()
    report = json.loads((SHIPPED / "report.json").read_text())
    report["hop_losses"]["x1"] = None
    (tmp_path / "run" / "report.json").write_text(json.dumps(report))
    code, out, _ = ask("show", tmp_path / "run")
    (line,) = [line for line in out.splitlines() if line.startswith("x1 ")]
    assert code == 0 and "not asked" in line


def test_draw_says_where_and_what(ask, tiny_run):
    code, out, _ = ask("draw", tiny_run)
    assert code == 0
    for name in ("problem", "curves", "attention", "role_attention"):
        for suffix in ("svg", "png"):
            path = tiny_run / "pictures" / f"{name}.{suffix}"
            assert path.stat().st_size > 1000
            assert str(path) in out


def test_without_out_the_run_is_named_by_its_identity(ask, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code, out, _ = ask("train", "retrieval", *TINY, "--json")
    identity = json.loads(out)["config"]["identity"]
    assert code == 0
    assert (tmp_path / "runs" / f"retrieval-{identity}" / "DONE").is_file()


def test_a_preset_gives_values_and_options_win(ask, tmp_path):
    given = ["--preset", "transformer_d", "--layers", 1, "--steps", 1, "--batch", 4, "--examples", 8, "--val-size", 4]
    code, out, _ = ask("train", "retrieval", *given, "--d-model", 8, "--out", tmp_path / "run", "--json")
    config = json.loads(out)["config"]
    assert code == 0
    assert config["task"]["n_hops"] == 4
    assert config["model"]["mlp"] is False
    assert config["model"]["d_head"] == 16
    assert config["model"]["n_layers"] == 1
    assert config["training"]["checkpoints"] == "80"


def test_the_same_seed_gives_the_same_weights(ask, tmp_path):
    for name in ("a", "b"):
        assert ask("train", "retrieval", *TINY, "--seed", 7, "--threads", 1, "--out", tmp_path / name)[0] == 0
    a, b = load(tmp_path / "a").model.state_dict(), load(tmp_path / "b").model.state_dict()
    assert all(torch.equal(a[name], b[name]) for name in a)
    assert (tmp_path / "a" / "metrics.jsonl").read_bytes() == (tmp_path / "b" / "metrics.jsonl").read_bytes()


# What cannot be -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--hops", "0"], ["hops must be at least 1; got 0"]),
        (["--hop", "2"], ["--hop", "--hops"]),
        (["--hops", "two"], ["--hops", "two"]),
        (["--d-model", "100", "--heads", "3"], ["d-model must be a multiple of heads", "100 and 3"]),
        (["--order", "backwards"], ["order must be nearest_first"]),
        (["--order", "2,1"], ["order must be", "1 to 1"]),
        (["--d-symbol", "3"], ["d-symbol must be even"]),
        (["--curriculum", "hard"], ["no 'hard' in curricula"]),
        (["--attention", "softmaxx"], ["did you mean 'softmax'"]),
        (["--position-code", "tokens"], ["position-code must be one of token, pair"]),
        (["--lr", "nan"], ["lr must be a finite number"]),
        (["--lr", "-1"], ["lr must be at least 0"]),
        (["--examples", "3"], ["examples must be 0 or at least the batch"]),
        (["--warmup", "5"], ["warmup and decay-steps together must fit into steps"]),
        (["--checkpoints", "often"], ["checkpoints must be such as 100"]),
        (["--measures", "nosuch"], ["no 'nosuch' in measures"]),
        (["--preset", "transformer_e"], ["the preset must be one of", "got 'transformer_e'", "transformer_d"]),
        (["--device", "tpu"], ["device must be auto, cpu or cuda"]),
        (["--mirror", "trackio"], ["trackio is not installed", "hopscope[trackio]"]),
        (["--chains", "256", "--hops", "256"], ["more than fit into 4096 positions"]),
        (["--val-size", "0"], ["val-size must be at least 1"]),
    ],
)
def test_bad_input_to_train(ask, tmp_path, arguments, words):
    folder = tmp_path / "run"
    refused(ask("train", "retrieval", *TINY, "--out", folder, *arguments), *words)
    assert not (folder / "DONE").exists()


def test_a_diverging_run_ends_in_one_sentence(ask, tmp_path):
    code, out, err = ask("train", "retrieval", *TINY, "--lr", "1e30", "--out", tmp_path / "run")
    assert (code, out) == (2, "")
    assert "training diverged; choose a smaller --lr" in err.splitlines()[-1]
    assert "Traceback" not in err
    assert not (tmp_path / "run" / "DONE").exists()


def test_another_configuration_in_the_folder(ask, tiny_run):
    before = {path: path.read_bytes() for path in tiny_run.rglob("*") if path.is_file()}
    result = ask("train", "retrieval", *TINY, "--batch", 16, "--out", tiny_run)
    refused(result, "holds another run", "batch is 8 there and 16 here")
    assert {path: path.read_bytes() for path in tiny_run.rglob("*") if path.is_file()} == before


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["shwo", "x"], ["shwo"]),
        (["show", "no/such/folder"], ["is not a run folder"]),
        (["draw", "no/such/folder"], ["is not a run folder"]),
        (["show"], ["missing argument 'DIR'"]),
        (["sample", "retreival"], ["retreival"]),
        (["sample", "retrieval", "--hops", "0"], ["hops must be at least 1"]),
        (["sample", "conditional_retrieval", "--shape", "x"], ["shape must be steps such as"]),
        (["reproduce", "curriculum", "--scale", "huge"], ["scale must be one of quick, cpu, long, paper"]),
        (["reproduce", "figure5"], ["no 'figure5' in experiments"]),
        (["reproduce", "curriculum", "--budget", "soon"], ["budget must be a time such as"]),
        (["reproduce"], ["say which experiment"]),
        (["report", "--results", "no/such/folder"], ["there is no folder no/such/folder"]),
    ],
)
def test_bad_input_elsewhere(ask, arguments, words):
    refused(ask(*arguments), *words)


def test_a_fault_of_ours_is_owned(ask, monkeypatch):
    monkeypatch.setattr(catalogue, "summary", lambda *_: 1 / 0)
    code, _, err = ask("list", "tasks")
    assert code == 1
    assert "ZeroDivisionError" in err
    assert "a fault of ours" in err


def test_an_interrupt_is_130(ask, monkeypatch):
    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(catalogue, "summary", interrupt)
    code, _, err = ask("list", "tasks")
    assert code == 130
    assert "interrupted" in err


@pytest.mark.parametrize("command", ["list tasks", "report --paper"])
def test_a_reader_who_has_seen_enough_is_no_fault(command, tmp_path):
    """As `hopscope list | head -1`: click ends a command whose pipe is closed with exit code 1."""
    code = f"import sys; sys.path[:0] = [{str(Path(__file__).parents[2])!r}]; from hopscope.cli import main; "
    code += f"sys.exit(main({command.split()!r}))"
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen([sys.executable, "-c", code], cwd=tmp_path, **streams) as process:
        process.stdout.close()
        assert process.stderr.read() == b"" and process.wait() == 0


def test_an_exit_that_is_not_of_a_closed_pipe_keeps_its_code(monkeypatch):
    def leave(*_):
        raise SystemExit(3)

    monkeypatch.setattr(catalogue, "summary", leave)
    with pytest.raises(SystemExit) as left:
        main(["list", "tasks"])
    assert left.value.code == 3
