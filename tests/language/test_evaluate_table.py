"""The table of `evaluate` on a terminal of 80 columns: five columns, none of them cut; `--wide` has the rest."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from hopscope.cli.answer_tables import COLUMNS, MORE, as_table
from hopscope.cli.lm.evaluate import as_value
from hopscope.core.settings import BadInput
from hopscope.language.evaluation import put_rows

ROW = {
    "model": "SmolLM2-135M-Instruct",
    "formulation": "lives_with",
    "hops": 2,
    "layout": "few_shot",
    "protocol": "log_likelihood",
    "accuracy": 0.75,
    "low": 0.66,
    "high": 0.82,
    "chance": 0.25,
    "n": 120,
    "valid": 1.0,
    "tries": 1.0,
    "mass": float("nan"),
    "prior_corrected": 0.5,
    "run_outs": 0,
    "labels": '{"Ann": 60, "Bob": 60}',
    "partial": False,
    "left": 0,
    "settings": "{}",
    "identity": '{"known": "oracle"}',
}


def printed(width: int, wide: bool) -> str:
    out = io.StringIO()
    Console(file=out, width=width).print(as_table([ROW], wide))
    return out.getvalue()


@pytest.mark.parametrize("width", [80, 100])
def test_every_number_is_whole_in_eighty_columns(width):
    said = printed(width, wide=False)
    for whole in (*COLUMNS, "lives_with 2", "0.75", "0.66\u20130.82", "above 0.25"):
        assert whole in said
    assert "\u2026" not in said and max(map(len, said.splitlines())) <= 80
    assert not any(name in said for name in ("corrected", "run out"))


def test_wide_has_every_column():
    said = printed(200, wide=True)
    assert all(name in said for name in (*COLUMNS, *MORE)) and "Ann\u00d760 Bob\u00d760" in said


def test_json_has_no_json_in_text_and_null_for_what_is_not_known():
    value = as_value(ROW)
    assert value["labels"] == {"Ann": 60, "Bob": 60} and value["identity"] == {"known": "oracle"}
    assert value["mass"] is None and value["accuracy"] == 0.75


def test_a_table_of_something_else_stays_as_it_is(tmp_path):
    table = tmp_path / "table.csv"
    table.write_text("run,step\na,1\n")
    with pytest.raises(BadInput, match="a table of something else"):
        put_rows(table, [{"model": "m", "right": "1"}], ["model", "right"], ["model"])
    assert table.read_text() == "run,step\na,1\n"
