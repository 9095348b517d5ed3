"""`hopscope import WEIGHTS --task TASK`: a transformer trained elsewhere, stored as a run."""

from __future__ import annotations

import hashlib
import itertools
from pathlib import Path
from typing import Any

import click

from hopscope.cli.commands.show import describe
from hopscope.cli.options import PATH, Brief, json_option, options_of, out_option, pick, print_json, say
from hopscope.configuration.config import Config, Training
from hopscope.core import catalogue
from hopscope.runs.from_weights import write_made
from hopscope.runs.importing import ACTIVATION, Imported, check_activation, check_logits, import_model, read_weights
from hopscope.runs.run import Run


class ForTask(Brief):
    """A command with the options of the task that --task names, besides its own."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        ctx.meta["task"] = named(args)
        return super().parse_args(ctx, args)

    def every(self, ctx: click.Context) -> list[click.Parameter]:
        known = ctx.meta.get("task") in catalogue.names("tasks")
        of_task = options_of(catalogue.find("tasks", ctx.meta["task"])) if known else []
        own = super().every(ctx)
        return [*own[:-1], *of_task, own[-1]]  # --help stays last


def named(args: list[str]) -> str | None:
    """The value of --task, read before the command line is parsed."""
    for here, after in itertools.zip_longest(args, args[1:]):
        if here == "--task":
            return after
        if here.startswith("--task="):
            return here.removeprefix("--task=")
    return None


@click.command(
    "import",
    cls=ForTask,
    common=("task", "mask", "layer_norm", "positions", "activation", "logits", "out", "as_json"),
    help="Store a model trained elsewhere as a run, for show, draw and circuit. WEIGHTS is the state dict of a "
    "TransformerLens HookedTransformer in safetensors; pickles are refused unread. The architecture is read off the "
    "tensors, and attention is assumed to be softmax. The activation of MLPs must be given by --activation or checked "
    "by --logits. For tasks of vectors embed.W_E is the (d_input, d_model) projection of the inputs, and embed.b_E its "
    "bias, if it has one. --task TASK --help also lists the task's options.",
)
@click.argument("weights", metavar="WEIGHTS", type=PATH)
@click.option("--task", required=True, metavar="TASK", help="The task it was trained on; takes its options, too.")
@click.option(
    "--mask",
    type=click.Choice(["causal", "none"]),
    default="causal",
    show_default=True,
    help="Whether a position sees only itself and earlier ones; a state dict does not say.",
)
@click.option(
    "--layer-norm/--no-layer-norm",
    default=None,
    help="Required if WEIGHTS has no LayerNorm parameters: folded into the weights (yes), or no LayerNorm (no).",
)
@click.option(
    "--positions",
    type=click.Choice(["learned", "input"]),
    help="Whether the model adds its position embedding to inputs that carry their positions; required if WEIGHTS has "
    "one that is not 0.",
)
@click.option(
    "--activation",
    metavar="NAME",
    help=f"Activation of its MLPs, which a state dict does not hold; hopscope computes {ACTIVATION}.",
)
@click.option(
    "--logits",
    type=PATH,
    metavar="FILE",
    help="A safetensors file with inputs and the original model's logits; the import is refused if it gives others.",
)
@out_option("Run folder; default runs/import-IDENTITY.")
@json_option("Print the run's summary as JSON.")
def command(weights: Path, task: str, mask: str, **given: Any) -> None:
    """Read, check, store and print; nothing is written before every check has passed."""
    wanted = pick(catalogue.find("tasks", task), given)
    how = {"causal": mask == "causal", "layer_norm": given["layer_norm"], "positions": given["positions"]}
    tensors = read_weights(weights)
    imported = import_model(tensors, wanted, **how)
    if given["logits"] is None or given["activation"] is not None:
        check_activation(tensors, given["activation"])
    if given["logits"] is not None:
        check_logits(imported.model, read_weights(given["logits"]))
    origin = {"by": "import", "file": weights.name, "sha256": hashlib.sha256(weights.read_bytes()).hexdigest()}
    config = Config(wanted, imported.model.architecture, Training(steps=0), origin)
    folder = given["out"] or Path("runs") / f"import-{config.identity}"
    stored = write_made(config, folder, imported.model)
    if given["as_json"]:
        print_json(stored.summary() | {"unread": list(imported.unread)})
    else:
        tell(stored, imported)


def tell(stored: Run, imported: Imported) -> None:
    """Print the run's summary, and the tensors that were not read."""
    describe(stored)
    for name in imported.unread:
        say(f"\n{name} was not read: inputs of {stored.task.name()} carry their positions themselves.")
    say(f"\nNext: hopscope draw {stored.path}")
