"""A training that fell back is told as such: where, from what, and what to try."""

from __future__ import annotations

from pathlib import Path

import pytest

from hopscope import Architecture, Config, Training
from hopscope.cli import main
from hopscope.runs.collapse import collapse
from hopscope.runs.run import Run
from hopscope.tasks.hop_k import HopK
from hopscope.tasks.retrieval import Retrieval

GUESS = 0.75  # of four chains


def run_of(folder: Path, *curves: list[float], task=None, **training) -> Run:
    """A run with these losses of each hop, logged every 20 steps."""
    task = task or Retrieval(n_hops=len(curves))
    config = Config(task, Architecture(n_layers=1, d_model=16), Training(steps=1000, log_every=20, **training))
    run = Run.create(folder / "run", config)
    for place, losses in enumerate(zip(*curves, strict=True)):
        hops = dict(zip(task.hop_names, losses, strict=True))
        run.log({"step": 20 * place, "train_loss": 1.0, "val_loss": sum(losses) / len(losses), "hop_losses": hops})
    return run


def test_hops_that_were_learnt_and_are_guessed_again(tmp_path):
    """x1 is lost between steps 80 and 100, x2 between 60 and 80: the first logged step without x2 counts."""
    found = collapse(run_of(tmp_path, [1.0, 0.76, 0.3, 0.1, 0.2, 0.7, 0.77], [1.0, 0.77, 0.4, 0.4, 0.6, 0.8, 0.74]))
    assert (found.step, found.hops, found.baseline) == (80, ["x1", "x2"], ("right step, no chain followed", GUESS))
    assert str(found) == (
        "Training collapsed at step 80: the loss of x1 and x2 rose back to 0.75, which is "
        "'right step, no chain followed'; try an --lr below 0.001, or --clip 1, or another --seed."
    )


def test_a_plateau_that_is_left_upwards_is_a_collapse_too(tmp_path):
    """As Transformer A's shape did at step 2,250: from the right step's mean to a constant answer."""
    found = collapse(run_of(tmp_path, [1.01, 0.76, 0.75, 0.97, 1.0], clip=1.0))
    assert (found.step, found.baseline[0]) == (60, "predict zero")
    assert found.advice == "try an --lr below 0.001, or another --seed"


@pytest.mark.parametrize(
    "losses",
    [
        pytest.param([1.0, 0.76, 0.3, 0.8, 0.1], id="a spike that passes"),
        pytest.param([1.0, 0.76, 0.75, 0.74, 0.76], id="a plateau"),
        pytest.param([1.0, 0.9, 0.3, 0.1, 0.6], id="partly back"),
        pytest.param([1.01, 0.99, 1.0, 1.01, 0.98], id="nothing"),
        pytest.param([1.0], id="one row"),
        pytest.param([], id="no row"),
    ],
)
def test_what_is_no_collapse(tmp_path, losses):
    assert collapse(run_of(tmp_path, losses)) is None


def test_two_baselines_that_almost_agree_are_left_together(tmp_path):
    """With 32 chains a loss of .968 is at both of the highest: it is not also below one of them."""
    assert collapse(run_of(tmp_path, [1.0, 0.97, 0.968], task=Retrieval(n_hops=1, n_chains=32))) is None
    found = collapse(run_of(tmp_path / "back", [1.0, 0.3, 0.968], task=Retrieval(n_hops=1, n_chains=32)))
    assert found.step == 40


def test_of_a_task_whose_losses_are_nats(tmp_path):
    task = HopK(n_hops=1)
    worst, guess = task.chance, task.baselines["any letter but the own one"]
    found = collapse(run_of(tmp_path, [worst, 0.1, 0.1], [worst, 0.1, guess], task=task))
    assert (found.step, found.hops) == (40, ["k=1"]) and found.baseline[1] <= guess / 0.95


def test_whoever_looks_at_the_run_is_told(tmp_path, capsys):
    run = run_of(tmp_path, [1.0, 0.3, 0.76])
    assert main(["show", str(run.path)]) == 0
    assert "Training collapsed at step 40: the loss of x1" in " ".join(capsys.readouterr().out.split())
    run = run_of(tmp_path / "other", [1.0, 0.3, 0.1])
    assert main(["show", str(run.path)]) == 0 and "collapsed" not in capsys.readouterr().out
