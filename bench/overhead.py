"""What asking costs beside the model: questions per second with one that answers at once, and tables of many records.

    python -m bench.overhead [--json bench/overhead.json]

Making a question, laying it out, keeping the answer safely on disk, judging and counting, for every formulation; then
tables from 200,000 records on disk: of 20,000 questions asked ten times, and of as many questions, which have to be
made again, one by one (aims: 500 questions per second; 30 s and 500 MB).
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from hopscope.core import catalogue
from hopscope.core.environment import code_version
from hopscope.language.backends.known import Known
from hopscope.language.evaluation import Evaluation, evaluate
from hopscope.language.layouts.code import Code
from hopscope.language.protocols.greedy_strict import GreedyStrict
from hopscope.language.protocols.log_likelihood import LogLikelihood

COUNT = 2000
MANY = 200_000


def speed(name: str, protocol: GreedyStrict | LogLikelihood) -> float:
    """Questions per second of one formulation, answers kept on disk; the model's own share is left out."""
    formulation, layout, known = catalogue.find("formulations", name)(), Code(), Known("oracle")
    known.learn(formulation, layout, 0, range(COUNT))
    with tempfile.TemporaryDirectory() as folder:
        began = time.monotonic()
        evaluate(known, formulation, layout, protocol, Evaluation(count=COUNT), Path(folder))
        return COUNT / (time.monotonic() - began)


ASK = """
import resource, sys, time
from pathlib import Path
from hopscope.formulations.equations import Equations
from hopscope.language.backends.known import Known
from hopscope.language.evaluation import Evaluation, evaluate
from hopscope.language.layouts.code import Code
from hopscope.language.protocols.resample import Resample

folder, behaviour, count, learns = sys.argv[1:]
model, equations, layout, began = Known(behaviour, 512), Equations(), Code(), time.monotonic()
model.learn(equations, layout, 0, range(int(count) if learns == "learns" else 0))
row = evaluate(model, equations, layout, Resample(), Evaluation(count=int(count)), Path(folder)).row
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
print(time.monotonic() - began, peak, row["n"] + row["run_outs"])
"""


def table_of_many(behaviour: str, questions: int) -> dict[str, float]:
    """Seconds and peak memory (MB) of a fresh process that makes a table of `MANY` records again."""
    with tempfile.TemporaryDirectory() as folder:
        for learns in ("learns", "knows nothing, and must not be asked"):
            command = [sys.executable, "-c", ASK, folder, behaviour, str(questions), learns]
            done = subprocess.run(command, capture_output=True, text=True, check=True)
            seconds, megabytes, known = map(float, done.stdout.split())
        with (Path(folder) / "records.jsonl").open() as file:
            records = sum(1 for _ in file)
    assert known == questions and records == MANY
    return {"records": records, "questions": questions, "seconds": round(seconds, 1), "MB": round(megabytes)}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--json", metavar="FILE", help="also write everything here")
    options = parser.parse_args()
    report: dict[str, Any] = {"hopscope": code_version(), "load_before": os.getloadavg()[0], "count": COUNT}
    for name in catalogue.names("formulations"):
        speeds = {rule.name(): round(speed(name, rule)) for rule in (GreedyStrict(), LogLikelihood())}
        report[name] = speeds
        print(f"{name:12}  " + "  ".join(f"{rule} {fast}/s" for rule, fast in speeds.items()), flush=True)
    report["tables"] = [table_of_many("refuses", MANY // 10), table_of_many("oracle", MANY)]
    for table in report["tables"]:
        print(f"table again: {table}")
    if options.json:
        Path(options.json).write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
