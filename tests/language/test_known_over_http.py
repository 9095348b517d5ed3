"""Models of known answer behind HTTP get exactly the score that they get in this process."""

from __future__ import annotations

import pytest

pytest.importorskip("httpx2", reason="httpx2 is not installed; run make language")

from hopscope.core import catalogue
from hopscope.language.backends.endpoint import Endpoint
from hopscope.language.backends.known import BEHAVIOURS, Known
from hopscope.language.evaluation import Evaluation, evaluate
from tests.fault_server import FaultServer

TEXT = ("greedy_strict", "greedy_lenient", "resample")


@pytest.mark.parametrize("layout", ["chat", "code"])
@pytest.mark.parametrize("behaviour", BEHAVIOURS)
def test_the_score_is_exactly_that_of_the_model(behaviour, layout):
    known, shown = Known(behaviour), catalogue.find("language.layouts", layout)()
    formulations = [catalogue.find("formulations", name)() for name in ("equations", "relatives")]
    with FaultServer(answer=known.answer) as server:
        endpoint = Endpoint(server.url)
        for formulation in formulations:
            known.learn(formulation, shown, 0, range(12))
            for name in TEXT:
                protocol = catalogue.find("language.protocols", name)()
                here, there = (
                    evaluate(b, formulation, shown, protocol, Evaluation(count=12)) for b in (known, endpoint)
                )
                assert str(here.judged) == str(there.judged)
                different = {key for key in here.row if str(here.row[key]) != str(there.row[key])}
                assert different == {"model", "identity", "finish_reasons"}
        endpoint.close()
    if behaviour in ("oracle", "chatty"):  # the last protocol: an answer in a sentence is never acceptable
        assert (there.row["correct"], there.row["run_outs"]) == ((12, 0) if behaviour == "oracle" else (0, 12))
