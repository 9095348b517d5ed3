"""The core of hopscope in one file: a problem, a transformer that learns it, and the circuit that it has learnt.

    python core_in_one_file/hop.py [SEED]

It needs PyTorch and about a minute of one core. Read it from top to bottom. Sections and appendices are those of Musat,
"Mechanism and Emergence of Stacked Attention Heads in Multi-Layer Transformers" (ICLR 2025, arXiv:2411.12118). The
package hopscope does the same for other tasks, shapes and models, and searches farther.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable
from typing import NamedTuple

import torch
from torch import Tensor, nn

HOPS, CHAINS, SYMBOL = 2, 4, 4  # D, N and K in the paper: hops of a chain, chains, numbers per symbol
LAYERS, WIDTH = 4, 64  # each layer has one head and no MLP
STEPS, BATCH, RATE = 1500, 128, 1e-3  # updates at most, sequences in each, learning rate
LOOK, LEARNT = 20, 0.05  # updates between two looks at the losses; a hop is learnt below this loss
BOUND, CLEAR = 0.05, 0.4  # a circuit's loss is below this (appendix E); a path with more of the attention stands out


# 1. The problem in plain Python ---------------------------------------------------------------------------------------
def successors(facts: Iterable[tuple[str, str]], query: str) -> list[str]:
    """All symbols that follow from one, nearest first. To find them is the whole problem.

    >>> successors([("b1", "b2"), ("a1", "a2"), ("a0", "a1"), ("b0", "b1")], "a0")
    ['a1', 'a2']
    """
    leads_to, chain = dict(facts), [query]
    while chain[-1] in leads_to:
        chain.append(leads_to[chain[-1]])
    return chain[1:]


# 2. The problem as tensors --------------------------------------------------------------------------------------------
# A sequence holds the facts of the last hop, then those of the hop before it, then the queries (section 3.1):
#
#     c1 c2  a1 a2  d1 d2  b1 b2     b0 b1  d0 d1  a0 a1  c0 c1     d0  a0  b0  c0
#
# The facts of a hop are shuffled, and so are the queries. So a position has the same role in every sequence: key[k] is
# the first token of a fact of hop k, value[k] the second, query a query. Only the chain that stands there differs.

LAYOUT = [place for k in range(HOPS, 0, -1) for place in CHAINS * ((k - 1, f"key[{k}]"), (k, f"value[{k}]"))]
LAYOUT += CHAINS * [(0, "query")]
HOP, ROLE = [hop for hop, _ in LAYOUT], [role for _, role in LAYOUT]  # of each position: x_HOP stands there, as ROLE
ROLES = list(dict.fromkeys(ROLE))  # key[2], value[2], key[1], value[1], query
POSITIONS = len(ROLE)
ANGLES = torch.arange(POSITIONS)[:, None] * 10_000.0 ** -(torch.arange(0, SYMBOL, 2) / SYMBOL)  # RoPE's frequencies
PLACE = torch.cat([ANGLES.cos(), ANGLES.sin()], -1)  # (position, SYMBOL): what tells a position from others


class Batch(NamedTuple):
    """Sequences as a model reads them, and whose chain stands where."""

    inputs: Tensor  # (batch, position, 2 · SYMBOL): a symbol, and beside it a code of the position
    targets: Tensor  # (batch, query, HOPS · SYMBOL): all that follows from each query, nearest first
    chain: Tensor  # (batch, position): the number of the chain, from 0


def sample(n: int, random: torch.Generator) -> Batch:
    """Draw n sequences (section 6). Symbols are new Gaussian vectors in each, so there is nothing to learn by heart."""
    symbols = torch.randn(n, HOPS + 1, CHAINS, SYMBOL, generator=random)
    facts = torch.rand(n, HOPS, CHAINS, generator=random, dtype=torch.float64).argsort(-1)
    queries = torch.rand(n, CHAINS, generator=random).argsort(-1)
    chain = torch.cat([facts.flip(1).flatten(1).repeat_interleave(2, 1), queries], 1)
    row = torch.arange(n)[:, None]
    inputs = torch.cat([symbols[row, torch.tensor(HOP), chain], PLACE.expand(n, -1, -1)], -1)
    targets = symbols.transpose(1, 2)[row, queries, 1:].flatten(2)
    return Batch(inputs, targets, chain)


def in_words(batch: Batch, row: int) -> tuple[list[tuple[str, str]], list[str]]:
    """One sequence as `successors` wants it: facts such as ("a1", "a2"), and queries such as "a0"."""
    names = [f"{'abcd'[chain]}{hop}" for chain, hop in zip(batch.chain[row].tolist(), HOP, strict=True)]
    return list(zip(names[:-CHAINS:2], names[1:-CHAINS:2], strict=True)), names[-CHAINS:]


# 3. The transformer ---------------------------------------------------------------------------------------------------

SEES = torch.ones(POSITIONS, POSITIONS, dtype=torch.bool).tril()  # (query, key): each position sees up to itself
Edit = Callable[[int, Tensor], Tensor]  # a layer's number and the pattern that it computed → the pattern that it uses


class Layer(nn.Module):
    """One head of attention. It reads the normalised residual stream and adds to the stream."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = number
        self.norm = nn.LayerNorm(WIDTH)
        self.read = nn.Linear(WIDTH, 3 * WIDTH)
        self.write = nn.Linear(WIDTH, WIDTH)

    def forward(self, stream: Tensor, edit: Edit | None) -> tuple[Tensor, Tensor]:
        """The stream behind the layer, and the pattern that was used, (batch, query, key)."""
        query, key, value = self.read(self.norm(stream)).chunk(3, -1)
        scores = (query * WIDTH**-0.5) @ key.mT
        pattern = scores.masked_fill(~SEES, -torch.inf).softmax(-1)
        pattern = edit(self.number, pattern) if edit else pattern
        return stream + self.write(pattern @ value), pattern


class Transformer(nn.Module):
    """Layers between an embedding, to which learnt positions are added, and the answers read off at the queries."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Linear(2 * SYMBOL, WIDTH)
        self.place = nn.Parameter(torch.empty(POSITIONS, WIDTH))
        self.layers = nn.ModuleList(Layer(number) for number in range(LAYERS))
        self.norm = nn.LayerNorm(WIDTH)
        self.answer = nn.Linear(WIDTH, HOPS * SYMBOL)

    def forward(self, inputs: Tensor, edit: Edit | None = None) -> tuple[Tensor, list[Tensor]]:
        """The answers, in the shape of the targets, and the pattern of every layer."""
        stream, patterns = self.embed(inputs) + self.place, []
        for layer in self.layers:
            stream, pattern = layer(stream, edit)
            patterns.append(pattern)
        return self.answer(self.norm(stream[:, -CHAINS:])), patterns


def untrained(random: torch.Generator) -> Transformer:
    """A transformer with GPT-2's initial weights: N(0, 0.02²), less where layers add to the stream; biases are 0."""
    model = Transformer()
    for name, weight in model.named_parameters():
        if name.endswith("bias"):
            nn.init.zeros_(weight)
        elif weight.ndim == 2:
            nn.init.normal_(weight, 0, 0.02 * (2 * LAYERS) ** -0.5 if "write" in name else 0.02, random)
    return model


# 4. Training ----------------------------------------------------------------------------------------------------------
def hop_losses(model: Transformer, batch: Batch, edit: Edit | None = None) -> Tensor:
    """The mean squared error of each hop: 1 nothing learnt, 0.75 the right hop of no particular chain, 0 solved."""
    errors = model(batch.inputs, edit)[0] - batch.targets
    return errors.square().unflatten(-1, (HOPS, SYMBOL)).mean((0, 1, 3))


def train(model: Transformer, random: torch.Generator) -> list[float]:
    """Train on fresh sequences until all hops are learnt; returns the loss of each.

    Every query asks for all its successors: that is the paper's implicit curriculum. Nothing else says where a head
    should look, so losses stay at 0.75 until one has found the other token of its fact. Once all hops are learnt, the
    rate falls by a tenth at every look, and training ends when it is 0.
    """
    validation, tenths = sample(256, torch.Generator().manual_seed(1_000_000)), 10
    optimizer = torch.optim.AdamW(model.parameters(), RATE, weight_decay=0.1)
    for step in range(STEPS + 1):
        if step % LOOK == 0:
            with torch.no_grad():
                losses = hop_losses(model, validation).tolist()
            print(f"step {step:4}" + "".join(f"   hop {k}: {loss:.3f}" for k, loss in enumerate(losses, 1)), flush=True)
            tenths -= max(losses) < LEARNT
            optimizer.param_groups[0]["lr"] = RATE * tenths / 10
        if not tenths:
            break
        hop_losses(model, sample(BATCH, random)).mean().backward()
        optimizer.step()
        optimizer.zero_grad()
    return losses


# 5. Circuits, and two tests of them -----------------------------------------------------------------------------------
class Path(NamedTuple):
    """In one layer, every position of one role attends to a position of another, in its own chain or in others."""

    layer: int
    query: str
    key: str
    chain: str  # same, or other

    def __str__(self) -> str:
        return f"L{self.layer}H0 {self.query}->{self.key}" + (" (other)" if self.chain == "other" else "")

    def entries(self, batch: Batch) -> Tensor:
        """Which entries of a (batch, query, key) pattern the path is."""
        query, key = (torch.tensor([role == name for role in ROLE]) for name in (self.query, self.key))
        same = batch.chain[:, :, None] == batch.chain[:, None, :]
        return query[:, None] & key & (same if self.chain == "same" else ~same) & SEES


def only(paths: Iterable[Path], batch: Batch, by_hand: bool) -> Edit:
    """Attention with some paths alone: all else is idle, which is to attend evenly to everything that is seen.

    By hand, a path has all attention of its positions (appendix E); else, as much as the head then computes. The second
    test is ours. It fails where a head needs another one, which is idle now, to find its target.
    """
    idle = SEES / SEES.sum(-1, keepdim=True)

    def edit(layer: int, pattern: Tensor) -> Tensor:
        made = idle.expand_as(pattern)
        for path in (path for path in paths if path.layer == layer):
            on = path.entries(batch)
            kept = on / on.sum(-1, keepdim=True).clamp(min=1) if by_hand else pattern * on
            rest = idle * ~on
            row = kept + rest * (1 - kept.sum(-1, keepdim=True)) / rest.sum(-1, keepdim=True).clamp(min=1e-9)
            made = torch.where(on.any(-1, keepdim=True), row, made)
        return made

    return edit


@torch.no_grad()
def losses_of(model: Transformer, batch: Batch, paths: Iterable[Path]) -> tuple[float, float]:
    """The loss that some paths alone have, by hand and live."""
    by_hand, live = (hop_losses(model, batch, only(paths, batch, hand)).mean() for hand in (True, False))
    return float(by_hand), float(live)


# 6. The search --------------------------------------------------------------------------------------------------------
@torch.no_grad()
def attention(model: Transformer, batch: Batch) -> dict[Path, float]:
    """The mean attention on every path, from 0 to 1: what one sees in attention maps (appendix E, step 1)."""
    found = {}
    for layer, pattern in enumerate(model(batch.inputs)[1]):
        for path in [Path(layer, q, k, chain) for q in ROLES for k in ROLES for chain in ("same", "other")]:
            on = path.entries(batch)
            if on.any():
                found[path] = float((pattern * on).sum(-1)[on.any(-1)].mean())
    return found


def search(model: Transformer, batch: Batch) -> list[Path]:
    """Appendix E, with nobody looking at maps. Of every layer and role the strongest path is taken, if it stands out.

    Then one after the other is left out, always the one that is missed least. The circuit is the smallest set on this
    way that passes both tests; if none does, the smallest that passes one; or else all paths that stand out.
    """
    seen = attention(model, batch)
    by_share = sorted(seen, key=lambda path: seen[path])
    strongest = {(path.layer, path.query): path for path in by_share}  # later ones replace weaker ones
    paths = sorted(path for path in strongest.values() if seen[path] > CLEAR)
    smallest = {0: paths}  # by the number of tests passed
    while paths:
        passed = sum(loss < BOUND for loss in losses_of(model, batch, paths))
        smallest[passed] = paths if passed else smallest[0]
        fewer = [[other for other in paths if other != path] for path in paths]
        paths = min(fewer, key=lambda some: max(losses_of(model, batch, some)))
    return smallest[max(smallest)]


def check(model: Transformer, batch: Batch, circuit: list[Path]) -> bool:
    """Whether the paths suffice and each is needed, on sequences that the search has not seen (steps 5 and 6)."""
    sets = {"these paths, all else idle": circuit, "no path, all idle": []}
    sets |= {f"without {path}": [other for other in circuit if other != path] for path in circuit}
    losses = {name: losses_of(model, batch, paths) for name, paths in sets.items()}
    print(f"{'loss':42}by hand     live")
    print("\n".join(f"{name:40}{by_hand:9.3f}{live:9.3f}" for name, (by_hand, live) in losses.items()))
    whole, _, *less = map(max, losses.values())
    return whole < BOUND <= min(less, default=0.0)


# 7. The drawing, and all of it ----------------------------------------------------------------------------------------
def drawing(circuit: Iterable[Path]) -> str:
    """Columns are roles, layers run upwards. An arrow leads from where a head looks, o, to where it writes, >."""
    place = {role: 15 + 11 * number for number, role in enumerate(ROLES)}
    symbols = [f"a{hop}" for hop in dict(zip(ROLE, HOP, strict=True)).values()]
    lines = [" " * 10 + "".join(f"{word:^11}" for word in words) for words in (symbols, ROLES)]
    for layer in range(LAYERS):
        lines.append(f"layer {layer}".ljust(66))
        for path in (path for path in circuit if path.layer == layer):
            left, right = sorted((place[path.key], place[path.query]))
            line = ("-" if path.chain == "same" else "~") * (right - left - 1)
            arrow = "@" if left == right else f"o{line}>" if left == place[path.key] else f"<{line}o"
            if lines[-1][left : right + 1].strip():
                lines.append(" " * 66)
            lines[-1] = lines[-1][:left] + arrow + lines[-1][right + 1 :]
    return "\n".join(line.rstrip() for line in reversed(lines))


def main(seed: int) -> None:
    """Show the problem, learn it, and show how it is solved."""
    torch.set_num_threads(1)
    random = torch.Generator().manual_seed(seed)
    facts, queries = in_words(sample(1, random), 0)
    print("facts    " + "  ".join(" ".join(fact) for fact in facts) + "\nqueries  " + "  ".join(queries))
    print("answers  " + ",  ".join(" ".join(successors(facts, query)) for query in queries) + "\n")
    model = untrained(random)
    losses = train(model, random)
    if max(losses) > LEARNT:
        raise SystemExit(f"Not learnt in {STEPS} steps: 0.75 is the plateau. Try another seed: hop.py {seed + 1}")
    circuit = search(model, sample(128, torch.Generator().manual_seed(1_000_001)))
    print(f"\nwhat the head of each layer reads (@ at its own position, ~ in other chains):\n\n{drawing(circuit)}\n")
    if not check(model, sample(1024, torch.Generator().manual_seed(1_000_002)), circuit):
        raise SystemExit(
            f"Not a circuit: some loss is on the wrong side of {BOUND}. Try another seed: hop.py {seed + 1}"
        )
    print(f"A circuit: with these paths alone both losses are below {BOUND}; without any one of them, not both.")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Train a two-hop transformer and find its circuit.")
    parser.add_argument("seed", type=int, nargs="?", default=3, help="of initial weights and data; default 3")
    main(parser.parse_args().seed)
