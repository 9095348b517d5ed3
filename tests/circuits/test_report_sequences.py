"""A report's sequences: each round doubles their number, and none is a repetition."""

from __future__ import annotations

import torch

from hopscope import load
from hopscope.circuits.discovery import Discovery
from hopscope.circuits.exam import Exam
from hopscope.circuits.report import Report
from hopscope.circuits.sufficiency import Sufficiency

LITTLE = Discovery(discovery=8, selection=8, report=8)


def rounds_of(exam):
    return [one.batch for one in Report(exam, Sufficiency(exam)).rounds()]


def test_every_round_doubles_the_number_up_to_thirty_two_times():
    run = load("packaged")
    batches = rounds_of(Exam(run.model, run.task, LITTLE, lambda _: None))
    assert [len(batch) for batch in batches] == [8, 8, 16, 32, 64, 128]
    rows = torch.cat([batch.inputs.flatten(1) for batch in batches])
    assert len(rows.unique(dim=0)) == len(rows) == 32 * LITTLE.report
