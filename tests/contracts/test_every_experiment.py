"""Every experiment, found by its file: distinct runs, a table that survives CSV, a figure and claims from it alone."""

from __future__ import annotations

import ast
import functools
import inspect
import json

import pandas
import pytest

from hopscope.cli import main
from hopscope.core import catalogue
from hopscope.experiments.base import SCALES, declared, experiment, offered
from hopscope.experiments.results import as_text, judged, measured, results_in, rooms, table_in
from hopscope.experiments.runner import Outcome, carry_out, reproduce, run_folder

EXPERIMENTS = catalogue.names("experiments")
#: Committed results, by experiment.
JUDGED = {folder.name: folder for folder in results_in(*rooms()) if (folder / "claims.json").is_file()}


@functools.cache
def identities(name: str, scale: str) -> list[str]:
    return [config.identity for config in declared(name, scale)]


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """One folder of runs for all experiments, as people have it: what several ask for is trained once."""
    return tmp_path_factory.mktemp("runs")


@pytest.fixture(scope="module", params=EXPERIMENTS)
def reproduced(request, runs, tmp_path_factory):
    """The experiment at quick scale, once for all tests."""
    return reproduce(request.param, "quick", runs=runs, results=tmp_path_factory.mktemp(request.param) / "results")


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_runs_are_distinct(name):
    for scale in offered(name):
        assert len(set(identities(name, scale))) == len(identities(name, scale)) > 0, scale


@pytest.mark.parametrize("name", JUDGED)
def test_every_run_named_in_results_is_still_declared(name):
    """But for rows of models built by hand."""
    table = pandas.read_csv(JUDGED[name] / "table.csv", keep_default_na=False, usecols=["run", "scale"], dtype=str)
    for scale, rows in table.groupby("scale"):
        assert set(rows.run) - {"by hand"} <= set(identities(name, str(scale))), scale


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_the_docstring_names_its_source_and_times_are_stated(name):
    source = experiment(name)
    sources = ("section", "figure", "appendix", "arxiv", "(ours")
    assert any(word in source.__doc__.lower() for word in sources), f"{name}: name the source, or say (ours)"
    assert list(source.SECONDS) == offered(name), f"{name}: SECONDS has the scales in order: {', '.join(SCALES)}"
    assert set(SCALES) - set(offered(name)) <= {"long"}, f"{name}: only the scale long may be missing from SECONDS"
    assert source.SECONDS["quick"] <= 10
    assert source.SECONDS["cpu"] <= 12 * 60
    assert source.SECONDS.get("long", 0) <= 3 * 3600
    assert getattr(source, "CELL_SECONDS", 0) <= 20 * 60


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_the_table_is_told_the_scale_and_does_not_guess_it(name):
    """Nothing but the name of a scale decides how much is measured; numbers of steps are compared with none."""
    source = experiment(name)
    assert list(inspect.signature(source.table).parameters)[1:] == ["scale"]
    for node in ast.walk(ast.parse(inspect.getsource(source))):
        sides = [node.left, *node.comparators] if isinstance(node, ast.Compare) else []
        counts = any(isinstance(side, ast.Attribute) and side.attr in ("steps", "batch") for side in sides)
        fixed = any(isinstance(side, ast.Constant) for side in sides)
        assert not (counts and fixed), f"{name}: {ast.unparse(node)} guesses the scale"


@pytest.mark.heavy
def test_it_leaves_a_table_a_figure_and_claims(reproduced):
    assert reproduced.done
    found = {f.name for f in reproduced.results.iterdir() if f.name[0] != "."}
    assert found == {"table.csv", "figure.svg", "claims.json", "manifest.json"}
    claims = json.loads((reproduced.results / "claims.json").read_text())
    assert claims
    assert len({row["id"] for row in claims}) == len(claims)
    for row in claims:
        assert row.keys() == {
            *("id", "section", "sentence", "scale", "number", "spread", "interval", "n", "seeds"),
            *("threshold", "verdict", "runs", "version"),
        }
        assert row["verdict"] == "undecided"  # the quick scale tests plumbing and judges nothing
        assert row["n"] >= 0 and row["seeds"] and row["runs"] and row["version"]


@pytest.mark.heavy
def test_claims_follow_from_the_table_alone(reproduced):
    """Judged once more they are the same. The figure is drawn by `redraw`, which is given no more than the folder."""
    claims = json.loads((reproduced.results / "claims.json").read_text())
    source, table = experiment(reproduced.name), table_in(reproduced.results)
    assert list(judged(source, table, "quick")) == claims


@pytest.mark.heavy
def test_the_table_is_the_union_of_its_cells_unless_it_compares_runs(reproduced, runs):
    """Then results can be kept run by run; whoever offers `long` can be drawn and judged with cells missing."""
    source = experiment(reproduced.name)
    if getattr(source, "COMPARES_RUNS", False):
        assert "long" not in offered(reproduced.name)
        return
    configs = declared(reproduced.name, "quick")
    cells = [carry_out(config, run_folder(runs, config), lambda: False) for config in configs]
    tables = [measured(source, [cell], "quick") for cell in cells]
    parts = [as_text(table) for table in tables]
    assert [set(part.run) for part in parts] == [{config.identity} for config in configs]
    whole, union = table_in(reproduced.results, as_text=True), pandas.concat(parts, ignore_index=True).fillna("")
    assert sorted(union.columns) == sorted(whole.columns)
    rows = [sorted(map(tuple, table[sorted(whole.columns)].to_numpy().tolist())) for table in (whole, union)]
    assert rows[0] == rows[1]
    for count in range(1, len(cells)) if "long" in offered(reproduced.name) else ():
        some = pandas.concat(tables[:count], ignore_index=True)
        source.figure(some)
        assert list(source.claims(some))


@pytest.mark.heavy
def test_asked_again_it_trains_nothing_and_measures_the_same(reproduced, runs, monkeypatch):
    """The same table: what is drawn and judged follows from it alone, so that it is not drawn once more.

    What compares no runs was measured anew above, cell by cell.
    """
    source, compares = experiment(reproduced.name), getattr(experiment(reproduced.name), "COMPARES_RUNS", False)
    mine = [run_folder(runs, config) for config in declared(reproduced.name, "quick")]
    files = lambda: [path for run in mine for path in run.rglob("*") if path.is_file()]  # noqa: E731
    stamps = {path: path.stat().st_mtime_ns for path in files()}
    published = []
    monkeypatch.setattr("hopscope.experiments.runner.publish", lambda _, table, results: published.append(table))
    if not compares:
        monkeypatch.setattr(source, "table", lambda runs, scale: pandas.DataFrame())
    again = reproduce(reproduced.name, "quick", runs=runs, results=reproduced.results)
    assert again.trained == reproduced.trained
    [table] = published
    if compares:
        pandas.testing.assert_frame_equal(as_text(table), table_in(reproduced.results, as_text=True))
    assert {path: path.stat().st_mtime_ns for path in files()} == stamps


@pytest.mark.parametrize("scale", ["quick", "long"])
def test_all_of_them_are_those_that_have_runs_at_the_scale(scale, tmp_path, monkeypatch):
    asked = []

    def noted(name: str, scale: str, **_):
        asked.append(name)
        return Outcome(name, scale, [], 1, None)

    monkeypatch.setattr("hopscope.cli.commands.reproduce.reproduce", noted)
    monkeypatch.setattr("hopscope.cli.commands.reproduce.to_train", lambda *_: [])
    assert main(["reproduce", "all", "--scale", scale, "--runs", str(tmp_path)]) == 0
    assert asked == [name for name in EXPERIMENTS if scale in offered(name)]
