"""The frame of experiments: sums done by hand on small tables."""

from __future__ import annotations

import json
import math
import os
import signal
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace

import pytest
from pandas import DataFrame

from hopscope.cli import main
from hopscope.cli.commands.reproduce import seconds
from hopscope.core import catalogue
from hopscope.core.environment import code_version
from hopscope.core.settings import BadInput, setting
from hopscope.core.storage import write_json
from hopscope.experiments import runner, work
from hopscope.experiments.curves import LEARNT, crossing, endings_of, final, first_below, hop_curves_of
from hopscope.experiments.results import publish, room
from hopscope.experiments.runner import run_folder
from hopscope.experiments.tables import rows_of
from hopscope.experiments.work import Finished, Stopped, Work
from hopscope.tasks.conditional_retrieval import ConditionalRetrieval
from hopscope.tasks.retrieval import Retrieval
from hopscope.tasks.symbolic_retrieval import SymbolicRetrieval
from hopscope_studies.stacked_heads.experiments.curriculum import claims


def curve(run: str, seed: int, curriculum: str, hop: str, losses: list[float]) -> list[dict]:
    about = {"run": run, "version": "v", "seed": seed, "curriculum": curriculum, "scale": "cpu"}
    return [{**about, "step": 50 * i, "val_loss": x, "hop": hop, "hop_loss": x} for i, x in enumerate(losses)]


TABLE = DataFrame(
    [
        *curve("a", 0, "implicit", "x1", [1.0, 0.4, 0.02, 0.01, 0.02]),
        *curve("a", 0, "implicit", "x2", [1.0, 0.8, 0.4, 0.03, 0.01]),
        *curve("b", 0, "none", "x2", [1.0, 0.8, 0.75, 0.74, 0.76]),
    ]
)


def test_crossing_is_interpolated():
    assert crossing([0, 50], [1.0, 0.4], 0.5) == pytest.approx(50 * 0.5 / 0.6)
    assert crossing([10], [0.1], 0.5) == 10
    assert math.isnan(crossing([0, 50], [1.0, 0.6], 0.5))
    assert math.isnan(crossing([], [], 0.5))  # of a run that did not watch it


def test_final_is_the_mean_over_the_last_hundred_steps():
    """Rows at 150 and 200 of 200: (0.01 + 0.02) / 2."""
    assert final(TABLE)["a", "x1"] == pytest.approx(0.015)
    assert final(TABLE)["b", "x2"] == pytest.approx(0.75)


def test_first_below_by_run_and_hop():
    found = first_below(TABLE, 0.5)
    assert found["a", "x2"] == pytest.approx(50 + 50 * 0.3 / 0.4)
    assert math.isnan(found["b", "x2"])


def test_paired_by_seed_or_refused():
    """Runs stand in the order of their names, in which the second setting's seeds are turned about: 10 / 1, 20 / 2."""
    names = {("long", 0): "d", ("long", 1): "c", ("short", 0): "a", ("short", 1): "b"}
    losses = {("long", 0): 10.0, ("long", 1): 20.0, ("short", 0): 1.0, ("short", 1): 2.0}
    table = DataFrame(
        [row for (way, seed), run in names.items() for row in curve(run, seed, way, "x1", [losses[way, seed]] * 5)]
    )
    found = final(table, by=("curriculum", "seed"))
    assert (found["long"] / found["short"]).to_dict() == {(0, "x1"): 10.0, (1, "x1"): 10.0}
    steps = first_below(table, 1.5, by=("curriculum", "seed")).unstack("hop").x1
    assert steps["short", 0] == 0 and math.isnan(steps["short", 1])
    for of in (final, lambda *table, by: first_below(*table, 0.5, by=by)):
        with pytest.raises(ValueError, match="two runs or more have the same seed; name what they differ in"):
            of(table, by="seed")


def made_up_run(identity: str, seed: int, positions: str = "input") -> SimpleNamespace:
    """A run of a Transformer, as tables read it."""
    model = SimpleNamespace(positions=positions)
    config = SimpleNamespace(identity=identity, training=SimpleNamespace(seed=seed, steps=100), model=model)
    return SimpleNamespace(config=config, sessions=[{"environment": {"code": "v"}}], rows=[])


def test_rows_of_says_of_which_run_a_row_is_and_which_prior_it_had():
    one, other = made_up_run("a", 0), made_up_run("b", 1, "relative(start='L0 1:4')")
    found = rows_of([one, other], lambda run: [{"layer": layer, "of": run.config.identity} for layer in (0, 1)])
    assert list(found.columns) == ["run", "version", "seed", "prior", "layer", "of"]
    assert found.run.tolist() == found.of.tolist() == ["a", "a", "b", "b"]
    assert found.seed.tolist() == [0, 0, 1, 1] and set(found.version) == {"v"}
    assert found.prior.tolist() == ["none"] * 2 + ["attention's bias by distance starts at 4 for distance 1 in L0"] * 2
    assert rows_of([one], lambda run: []).empty


def test_rows_of_has_the_rows_that_finished_work_left(tmp_path):
    """Beside those of runs, in the order given; a list of rows, or one under `rows`, as the work wrote it."""

    @dataclass(frozen=True)
    class Counted(Work):
        label, file = "counted", "found.json"

        seed: int = setting(0, "which")
        inside: bool = setting(False, "whether the rows stand under a name")

        def do(self, folder, should_stop):
            rows = [{"layer": layer} for layer in (0, 1)]
            write_json(folder / self.file, {"rows": rows} if self.inside else rows)

    works = [Counted(seed=3), Counted(seed=5, inside=True)]
    done = [Finished.of(work, tmp_path / work.identity, lambda: False) for work in works]
    found = rows_of([done[0], made_up_run("a", 0), done[1]], lambda run: [{"layer": 7}])
    assert found.run.tolist() == [works[0].identity] * 2 + ["a"] + [works[1].identity] * 2
    assert found.seed.tolist() == [3, 3, 0, 5, 5] and found.layer.tolist() == [0, 1, 7, 0, 1]
    assert found.version[0] == done[0].version and found.prior.isna().tolist() == [True, True, False, True, True]


def test_what_is_learnt_is_relative_to_what_a_guess_costs():
    """Two thirds of 1 − 1/N, or of ln N, which is the paper's 0.5 at N = 4; where no guess is left, half of chance."""
    expected = {1: 0.5, 2: 1 / 3, 4: 0.5, 8: 7 / 12}
    assert {n: Retrieval(n_chains=n).learnt_below for n in expected} == pytest.approx(expected)
    assert Retrieval().learnt_below == LEARNT == 0.5
    assert ConditionalRetrieval(n_chains=2).learnt_below == pytest.approx(1 / 3)
    assert SymbolicRetrieval(n_chains=4).learnt_below == pytest.approx(math.log(4) * 2 / 3)
    found = first_below(TABLE, {"a": 1 / 3, "b": 0.75})
    assert found["a", "x1"] == pytest.approx(50 + 50 * (0.4 - 1 / 3) / 0.38)
    assert found["b", "x2"] == pytest.approx(100)  # where it stands at 0.75, before it goes below


def test_endings_of_two_chains_ask_for_less_than_a_guess():
    """At N = 2 a loss of 0.45 is below the paper's 0.5, and hardly below the 0.5 of a guess: it is learnt at 1/3."""
    rows = [{"step": 50 * i, "val_loss": x, "hop_losses": {"x1": x}} for i, x in enumerate((1.0, 0.45, 0.3))]
    run = made_up_run("i", 0)
    of = lambda n: SimpleNamespace(**vars(run) | {"rows": rows, "task": Retrieval(n_chains=n)})  # noqa: E731
    assert endings_of([of(2)]).learnt[0] == pytest.approx(50 + 50 * (0.45 - 1 / 3) / 0.15)
    assert endings_of([of(4)]).learnt[0] == pytest.approx(50 * 0.5 / 0.55)


def test_claims_are_judged_from_the_table():
    judged = {claim.id: claim for claim in claims(TABLE)}
    assert judged["no_curriculum_fails"].verdict == "holds"
    assert judged["no_curriculum_fails"].number == pytest.approx(0.75)
    assert judged["curriculum_succeeds"].verdict == "holds"
    assert judged["curriculum_succeeds"].number == pytest.approx(0.02)
    assert judged["hops_in_order"].verdict == "holds"
    assert judged["hops_in_order"].number == pytest.approx(87.5 - 50 * 0.5 / 0.6)


def test_claims_can_fail():
    swapped = TABLE.assign(hop=TABLE.hop.map({"x1": "x2", "x2": "x1"}))
    judged = {claim.id: claim for claim in claims(swapped)}
    assert judged["hops_in_order"].verdict == "fails"
    learnt = TABLE.assign(hop_loss=TABLE.hop_loss * 0.5)
    assert {c.id: c for c in claims(learnt)}["no_curriculum_fails"].verdict == "fails"


def test_scales_stand_side_by_side_and_a_scale_replaces_itself(tmp_path: Path):
    publish("curriculum", TABLE.assign(scale="quick"), tmp_path)
    publish("curriculum", TABLE, tmp_path)
    publish("curriculum", TABLE, tmp_path)
    rows = json.loads((tmp_path / "curriculum" / "claims.json").read_text())
    assert [row["scale"] for row in rows] == ["quick"] * 3 + ["cpu"] * 3
    assert {row["verdict"] for row in rows if row["scale"] == "quick"} == {"undecided"}
    assert {row["verdict"] for row in rows if row["scale"] == "cpu"} == {"holds"}
    assert rows[0]["spread"] == [0.75, 0.75]


def test_report_lists_claims(tmp_path: Path, capsys):
    publish("curriculum", TABLE, tmp_path)
    assert main(["report", "--results", str(tmp_path), "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert {row["experiment"] for row in rows} == {"curriculum"}
    assert main(["report", "--results", str(tmp_path)]) == 0
    assert "holds" in capsys.readouterr().out


def test_times():
    assert seconds("90s") == seconds("90") == seconds("1.5m") == 90
    assert seconds("1h") == 3600
    assert seconds(None) is None
    for text in ("soon", "-1m", "0", "1d"):
        with pytest.raises(BadInput, match="budget"):
            seconds(text)


# Work ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Counting(Work):
    """Counts to a number, a line each."""

    label = "counting"
    to: int = setting(3, "how far")

    def do(self, folder, should_stop):
        lines = folder / "lines"
        counted = len(lines.read_text()) if lines.exists() else 0
        for _ in range(counted, self.to):
            if should_stop():
                raise Stopped
            with lines.open("a") as file:
                file.write("|")


def test_work_is_stopped_goes_on_and_is_done_once(tmp_path):
    calls = iter([False, True])
    with pytest.raises(Stopped):
        Finished.of(Counting(), tmp_path, lambda: next(calls))
    assert (tmp_path / "lines").read_text() == "|" and not (tmp_path / "DONE").exists()
    for _ in range(2):
        done = Finished.of(Counting(), tmp_path, lambda: False)
        assert (tmp_path / "lines").read_text() == "|||" and done.version == code_version()


def test_work_is_what_it_depends_on():
    assert Counting(3).identity == Counting().identity != Counting(4).identity
    assert run_folder(Path("runs"), Counting()).name == f"counting-{Counting().identity}"


def declare(monkeypatch, source):
    """Make any experiment that one; all else is found as ever."""
    known = catalogue.module
    found = lambda kind, name: source if kind == "experiments" else known(kind, name)  # noqa: E731
    monkeypatch.setattr(catalogue, "module", found)


def test_a_budget_holds_for_work_and_the_same_command_goes_on(tmp_path, monkeypatch):
    source = SimpleNamespace(
        **dict.fromkeys(("figure", "claims")),
        SECONDS={"quick": 1},
        runs=lambda scale: [Counting(2), Counting(5)],
        table=lambda finished, scale: DataFrame({"counted": [len((f.path / "lines").read_text()) for f in finished]}),
    )
    declare(monkeypatch, source)
    monkeypatch.setattr(runner, "publish", lambda name, table, results: table)
    where = {"runs": tmp_path / "runs", "results": tmp_path / "results"}
    assert runner.reproduce("counts", "quick", **where, budget=0.0).left == 2
    assert runner.reproduce("counts", "quick", **where).results.counted.tolist() == [2, 5]
    first = run_folder(tmp_path / "runs", Counting(2))
    (first / "DONE").unlink()
    assert runner.reproduce("counts", "quick", **where, budget=0.0).left == 1  # the second is done
    (first / "DONE").write_text('{"version": "v"}')
    spent = runner.reproduce("counts", "quick", **where, budget=0.0)
    assert (spent.done, spent.left, spent.results) == (False, 0, None)  # no table is begun


def test_a_spent_budget_stops_a_run_and_a_signal_ends_the_command(tmp_path):
    """Both save; the one is `Stopped`, and the next run may be looked at, the other goes up to the user."""
    from hopscope import Architecture, Config, Training
    from hopscope.tasks.retrieval import Retrieval
    from hopscope.training.loop import Interrupted

    training = Training(steps=9, batch=4, val_size=8, log_every=3)
    config = Config(Retrieval(n_hops=1), Architecture(n_layers=1, d_model=8), training)
    with pytest.raises(Stopped, match="stopped at step 1"):
        runner.carry_out(config, tmp_path / "run", lambda: True)

    def signalled():
        os.kill(os.getpid(), signal.SIGTERM)
        return False

    with pytest.raises(Interrupted, match="terminated at step 3"):
        runner.carry_out(config, tmp_path / "run", signalled)


def test_work_that_another_process_has_just_done_is_not_done_again(tmp_path, monkeypatch):
    """It was at it when we looked, and done when we had the folder."""
    alone = work.alone

    @contextmanager
    def late(lock, otherwise):
        with alone(lock, otherwise):
            (tmp_path / "DONE").write_text('{"version": "theirs"}')
            yield

    monkeypatch.setattr(work, "alone", late)
    done = Finished.of(Counting(), tmp_path, lambda: False)
    assert done.version == "theirs" and not (tmp_path / "lines").exists()


def test_a_folder_that_cannot_be_is_refused_before_anything_is_trained(tmp_path, capsys):
    (tmp_path / "file").write_text("")
    for name, where in (("curriculum", "--results"), ("memories", "--runs")):
        other = {"--results": tmp_path / "r", "--runs": tmp_path / "runs", where: tmp_path / "file"}
        options = [str(word) for pair in other.items() for word in pair]
        assert main(["reproduce", name, *options]) == 2
        assert "choose" in capsys.readouterr().err
        assert not list(tmp_path.glob("runs/*"))


@pytest.mark.parametrize("text", ["[", "{}", '[{"id": "a"}]'])
def test_altered_results_are_told_of(tmp_path, capsys, text):
    folder = tmp_path / "curriculum"
    folder.mkdir()
    (folder / "claims.json").write_text(text)
    assert main(["report", "--results", str(tmp_path)]) == 2
    assert "claims.json is" in capsys.readouterr().err
    assert main(["report", "--results", str(tmp_path), "--redraw"]) == 2
    assert "table.csv cannot be read" in capsys.readouterr().err
    (folder / "table.csv").write_text("a,b\n1,2\n")
    assert main(["report", "--results", str(tmp_path), "--redraw"]) == 2
    assert "it lacks a column" in capsys.readouterr().err


def test_a_page_needs_a_place_and_a_device_a_name(tmp_path, capsys):
    results = ["--results", str(room("curriculum"))]
    assert main(["report", *results, "--html", str(tmp_path / "none" / "page.html")]) == 2
    assert "choose one that exists" in capsys.readouterr().err
    assert main(["report", *results, "--html", str(tmp_path)]) == 2
    assert main(["reproduce", "curriculum", "--device", "cpu:x", "--runs", str(tmp_path / "runs")]) == 2
    assert "device must be auto, cpu or cuda" in capsys.readouterr().err


def test_no_table_hides_the_prior(tmp_path: Path, monkeypatch):
    """A study that says run, version and seed alone: the frame says which prior each had, and claims tell of it."""
    from hopscope import Architecture, Config, Training

    training = Training(steps=2, batch=4, val_size=4)
    configs = [
        Config(Retrieval(n_hops=1), Architecture(n_layers=1, d_model=8, positions=code), training)
        for code in ("input", "relative(start='L0 1:4')")
    ]
    source = SimpleNamespace(
        runs=lambda scale: configs,
        table=lambda runs, scale: DataFrame({"run": [run.config.identity for run in runs], "version": "v", "seed": 0}),
        **dict.fromkeys(("figure", "claims")),
        SECONDS={"cpu": 1},
    )
    declare(monkeypatch, source)
    published = []
    monkeypatch.setattr(runner, "publish", lambda name, table, results: published.append(table) or results)
    assert runner.reproduce("tiny", "cpu", runs=tmp_path / "runs", results=tmp_path / "results").done
    told = "attention's bias by distance starts at 4 for distance 1 in L0"
    assert dict(zip(published[0].run, published[0].prior, strict=True)) == {
        configs[0].identity: "none",
        configs[1].identity: told,
    }


def test_a_long_run_is_told_of_as_far_as_it_got(tmp_path: Path, monkeypatch):
    """Where an experiment declares PARTIAL a spent budget leaves a table; gone on with, a longer one."""
    from hopscope import Architecture, Config, Training
    from hopscope.tasks.retrieval import Retrieval

    training = Training(steps=40, batch=4, val_size=8, log_every=5)
    config = Config(Retrieval(n_hops=1), Architecture(n_layers=1, d_model=8), training)
    source = SimpleNamespace(
        runs=lambda scale: [config],
        table=lambda runs, scale: hop_curves_of(runs),
        **dict.fromkeys(("figure", "claims")),
        SECONDS={"cpu": 1},
        PARTIAL=True,
    )
    declare(monkeypatch, source)
    published = []
    monkeypatch.setattr(runner, "publish", lambda name, table, results: published.append(table) or results)
    where = {"runs": tmp_path / "runs", "results": tmp_path / "results"}
    assert runner.reproduce("tiny", "cpu", **where, budget=0.0).results is None and not published
    clock = iter(range(100_000))
    monkeypatch.setattr(runner.time, "monotonic", lambda: next(clock))
    stopped = runner.reproduce("tiny", "cpu", **where, budget=15)
    assert (stopped.done, stopped.left, stopped.results) == (False, 1, tmp_path / "results")
    assert 0 < published[0].step.max() < 40
    assert runner.reproduce("tiny", "cpu", **where).done and published[1].step.max() == 40
    source.PARTIAL = False
    assert runner.reproduce("tiny", "cpu", runs=tmp_path / "other", results=tmp_path, budget=15).results is None
