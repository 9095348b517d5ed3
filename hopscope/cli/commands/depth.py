"""`hopscope depth D`: the fewest layers that D hops need, a schedule that attains it, and why one fewer cannot."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path as File

import click

from hopscope.circuits.text_drawing import drawing
from hopscope.cli.options import as_json, console, print_json, say
from hopscope.core.settings import BadInput
from hopscope.core.terminal import Narrator
from hopscope.core.wording import count
from hopscope.theory import shapes
from hopscope.theory.depth import HEADS, MASKS, Depth, Heads, Mask, chain_of, minimum_depth

ATTAINED = "A schedule that attains it; layers count from 0, the paper's from 1:"


@click.command("depth")
@click.argument("hops", metavar="D", type=int, required=False)
@click.option("--mask", type=click.Choice(MASKS), default="causal", show_default=True, help="Who may attend to whom.")
@click.option(
    "--heads",
    type=click.Choice(HEADS),
    help="Positions attended to per position and layer; default one, many with --shape.",
)
@click.option(
    "--order",
    default="nearest_first",
    show_default=True,
    help="How the steps are presented: nearest_first, deepest_first, shuffled (the worst order) or such as 3,1,2.",
)
@click.option("--shape", help="Steps such as 'a>x a>y xy>z' instead of D: facts may have several premises.")
@click.option(
    "--draw",
    "picture",
    type=click.Path(path_type=File, dir_okay=False),
    metavar="FILE",
    help="Draw the schedule, as FILE.svg and FILE.png.",
)
@as_json
def command(
    hops: int | None,
    mask: Mask,
    heads: Heads | None,
    order: str,
    shape: str | None,
    picture: File | None,
    as_json: bool,
) -> None:
    """Compute the fewest layers after which the query can hold the answer of a chain of D hops.

    The number is exact within the information-flow model of Musat (ICLR 2025, section 5).
    """
    if (hops is None) == (shape is None):
        raise BadInput("give the number of hops D, or a --shape such as 'a>x a>y xy>z', and not both")
    if shape is not None and (heads == "one" or picture):
        raise BadInput("with --shape, ask for --heads many, and no picture")
    with Narrator("searching for schedules"):
        found: Depth | shapes.ShapeDepth
        if shape is not None:
            found = shapes.minimum_depth(shape, mask, order)
        else:
            found = minimum_depth(hops or 0, mask, heads or "one", order)
    drawn = draw(found, picture) if picture and isinstance(found, Depth) else []
    if as_json:
        print_json(found.as_dict())
    else:
        say("\n".join(text(found) if isinstance(found, Depth) else shape_text(found)))
        say("".join(f"drawn: {file}\n" for file in drawn), nl=False)


def draw(depth: Depth, file: File) -> list[File]:
    """Draw the schedule as SVG and PNG; the suffix of `file` is replaced. Returns the files."""
    from hopscope.drawing.flow_diagram import flow_diagram  # matplotlib is slow to start
    from hopscope.drawing.style import save

    chain = chain_of(depth.hops, depth.mask, depth.order)
    figure = flow_diagram(depth.schedule, depth.hops, order=chain.order, causal=chain.causal)
    return save(figure, file.with_suffix("") if file.suffix in (".svg", ".png") else file)


def text(depth: Depth) -> Iterator[str]:
    """The result as lines of text."""
    proof, mask = depth.certificate, "a causal mask" if depth.mask == "causal" else "no mask"
    order = f", facts {depth.order}" if depth.mask == "causal" else ""
    yield f"{count(depth.hops, 'hop')}, {mask}, {depth.heads} head{'s' if depth.heads == 'many' else ''}{order}"
    yield f"fewest layers: {depth.min_layers}{formula(depth)}; the paper's lower bound ⌈log3 2D⌉ is {depth.paper_bound}"
    if depth.order == "shuffled" and depth.mask == "causal":
        yield "shuffled facts: this is the number for the worst order; the schedule is for nearest_first"
    yield f"\n{ATTAINED}\n{drawing(depth.schedule, console().width)}"
    reached = ", ".join(f"e{piece}" for piece in proof.query_reach)
    how = "all positions attend to all they see" if proof.kind == "reach" else "each layer doubles what positions hold"
    yield ""
    yield f"Why {count(proof.layers, 'layer')} cannot: the answer is piece e{proof.needed}, and even if {how},"
    yield f"  the last piece that the query holds is {reached} (before the first layer and after each)."


def formula(depth: Depth) -> str:
    """The closed form of the depth, such as ` = ⌈log2(2D+1)⌉`, or how the depth compares with it."""
    if depth.mask == "none" and depth.heads == "many":
        return " = ⌈log3(4D+1)⌉"
    return " = ⌈log2(2D+1)⌉" if depth.min_layers == depth.hops.bit_length() + 1 else ", fewer than ⌈log2(2D+1)⌉"


def shape_text(depth: shapes.ShapeDepth) -> Iterator[str]:
    """The result for a shape as lines of text."""
    proof = depth.certificate
    yield f"shape {depth.shape}, {'a causal mask' if depth.mask == 'causal' else 'no mask'}, many heads, {depth.order}"
    paper = "" if depth.paper_bound is None else f"; the paper's lower bound is {depth.paper_bound}"
    yield f"fewest layers: {depth.min_layers}{paper}"
    yield f"\n{ATTAINED}\n{drawing(depth.schedule, console().width)}"
    holds, missing = ", ".join(proof["query_holds"][-1]), ", ".join(proof["missing"])
    yield ""
    yield f"Why {count(proof['layers'], 'layer')} cannot: the query then holds at most {holds}; {missing} is missing."
