"""`hopscope heads --circuit`: the circuit of a language model's hop, in words, as tables and as a picture."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from hopscope.cli.options import console, print_json, say
from hopscope.core.terminal import Narrator

if TYPE_CHECKING:
    from hopscope.formulations.base import Formulation
    from hopscope.language.layouts.base import Layout


def run_circuit(
    model: str,
    formulation: Formulation,
    layout: Layout,
    count: int | None,
    seed: int,
    threads: int | None,
    out: Path | None,
    as_json: bool,
) -> None:
    """Find, store, draw, tell; of two hops that the model does not do, tell why."""
    from hopscope.language.checkpoints import open_model
    from hopscope.language.circuit.study import CircuitStudy
    from hopscope.live.language import hop_of

    settings = CircuitStudy(count=CircuitStudy().count if count is None else count, seed=seed)
    with Narrator() as watch:
        watch(f"opening {model}")
        opened = open_model(model, threads=threads or min(2, os.cpu_count() or 1))
        found = hop_of(opened, formulation, layout, settings, watch)
        files = found.save(out or Path("heads") / f"{opened.name}-circuit")
    if as_json:
        print_json(found.report)
        return
    console().print(str(found), markup=False, soft_wrap=True)
    say("".join(f"{file}\n" for file in files), nl=False)
