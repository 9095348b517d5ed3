"""What asking costs beside the model: questions per second with one that answers at once, and tables of many records.

    python -m bench.overhead [--json bench/overhead.json]

Making a question, laying it out, keeping the answer safely on disk, judging and counting, for every formulation; then a
table from 200,000 records on disk (aims: 500 questions per second; 30 s and 500 MB).
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from hopscope import catalogue
from hopscope.environment import code_version
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


def table_of_many() -> dict[str, float]:
    """Seconds and peak memory (MB) of a fresh process that makes a table of many records again."""
    code = (
        "import sys, resource, time; from pathlib import Path; from hopscope.language.backends.known import Known;"
        "from hopscope.formulations.equations import Equations; from hopscope.language.layouts.code import Code;"
        "from hopscope.language.protocols.greedy_strict import GreedyStrict;"
        "from hopscope.language.evaluation import Evaluation, evaluate;"
        f"k = Known('oracle', 512); f = Equations(); n = {MANY};"
        "k.learn(f, Code(), 0, range(n)) if sys.argv[2] == 'ask' else None; t = time.monotonic();"
        "row = evaluate(k, f, Code(), GreedyStrict(), Evaluation(count=n), Path(sys.argv[1])).row;"
        "print(time.monotonic() - t, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, row['correct'])"
    )
    with tempfile.TemporaryDirectory() as folder:
        for what in ("ask", "again"):
            done = subprocess.run(
                [sys.executable, "-c", code, folder, what], capture_output=True, text=True, check=True
            )
            seconds, megabytes, correct = map(float, done.stdout.split())
            assert correct == MANY
    return {"records": MANY, "seconds": round(seconds, 1), "MB": round(megabytes)}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--json", metavar="FILE", help="also write everything here")
    options = parser.parse_args()
    report: dict[str, object] = {"hopscope": code_version(), "load_before": os.getloadavg()[0], "count": COUNT}
    for name in catalogue.names("formulations"):
        speeds = {rule.name(): round(speed(name, rule)) for rule in (GreedyStrict(), LogLikelihood())}
        report[name] = speeds
        print(f"{name:12}  " + "  ".join(f"{rule} {fast}/s" for rule, fast in speeds.items()), flush=True)
    report["table"] = table_of_many()
    print(
        f"table again: {report['table']}; this process: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024} MB"
    )
    if options.json:
        Path(options.json).write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
