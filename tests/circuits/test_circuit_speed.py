"""The bench of the search's time beside ACDC's."""

from __future__ import annotations

import json

from bench import circuit_speed


def test_ratios_are_taken_within_each_round_not_between_medians():
    rounds = [
        {"acdc": 10.0, "known": 1.0, "whole": 5.0},
        {"acdc": 30.0, "known": 2.0, "whole": 10.0},
        {"acdc": 20.0, "known": 4.0, "whole": 40.0},
    ]
    said = circuit_speed.told(rounds)
    assert "acdc 20.00 s, known 2.00 s, whole 10.00 s" in said
    assert "10.0 times that until the circuit is known, 2.0 the whole" in said


def test_what_was_measured_before_is_kept(tmp_path, monkeypatch, capsys):
    """Beside earlier ones of any version; and the search on the way says when the circuit is known."""
    file = tmp_path / "speed.json"
    file.write_text(json.dumps([{"hopscope": "earlier", "model": "demo", "rounds": []}]))
    monkeypatch.setattr(circuit_speed, "swept", lambda run, few: {"acdc": 1.0, "acdc_paths": few + 1})
    monkeypatch.setattr(circuit_speed, "searched", lambda run: {"known": 0.5, "whole": 1.0, "paths": 5})
    circuit_speed.main(["--rounds", "2", "--json", str(file)])
    first, new = json.loads(file.read_text())
    assert first["hopscope"] == "earlier" and [one["acdc_paths"] for one in new["rounds"]] == [6, 6]
    assert "ACDC's time is 2.0 times" in capsys.readouterr().out
