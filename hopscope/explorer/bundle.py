"""A bundle: all data of some runs for the explorer's page, as one JSON manifest and binary blocks.

The manifest describes the runs; arrays are in blocks, which it lists by name with type and shape. The page gets both
from a server (`bundle.json`, `block/NAME`), from elements of its own file, or from a notebook. The same format in
TypeScript is `explorer/src/bundle.ts`. Keys are added, never renamed or dropped, and a reader ignores unknown ones.
Steps count updates; layers, heads and positions count from 0; losses are the task's.

    format          1
    made_by         version of hopscope
    revision        rises by one whenever the manifest changes: a served bundle grows while it is made
    progress        {told, done, of, complete}: what is being done in words, checkpoints done, of how many
    replacements    {off, ideal, hand}: what the words mean, in a sentence each (`hopscope.explorer.computing`)
    runs            a list of runs, below
    claims          of results folders, or null: [{experiment, id, section, sentence, scale, number, spread, n,
                    threshold, verdict, runs, version, command, about, study, paper, control, counts, table, figure}],
                    the latter two names of blocks (CSV, SVG) or null; of a claim that was judged at several scales one
                    row `counts` (`hopscope.experiments.counting`)
    counts          {told, how, studies: [{study, found, told}]}: how many claims came out how, in sentences; or null
    opens           the view on which the page opens, or null: the scene, or what there is
    blocks          {NAME: {dtype, shape, bytes, sha256, scale}}

Blocks are little-endian and in C order; `dtype` is float32, float16, int32, int8 or uint8. A `scale` [low, high] says
that bytes stand for numbers: low + (high − low) · byte / 255; else it is null. Text (CSV, SVG) is uint8 of one
dimension. A block may be replaced by another of its name in a greater revision; the sha256 tells them apart.

A run:

    identity, name  12 hexadecimal digits, and what the user called it
    done            whether training came to its end
    error           a sentence, where the run cannot be read at all (all below may then be missing); else null
    warnings        sentences about what is not as it should be
    task            {name, settings, kind: vector|token, n_positions, d_input, d_vocab, d_symbol, d_output, hop_names,
                    query_positions: [first, end), floor, chance, learnt_below, solved_below, baselines: {name: loss},
                    ideal_over: even|latest, null: uniform|identity, carries_position, scoring}; `d_input`,
                    `d_symbol` or `d_vocab` are null where the task lacks them; `scoring` is the losses' rule
                    (`hopscope.explorer.scoring`), or null. Of a target −100 (token tasks) nothing is asked.
    model           {name, settings, n_layers, n_heads, d_model, d_head, d_mlp, attention: {name, settings},
                    positions: {name, settings}, causal, layer_norm, mlp, parameters, native, fallback,
                    tensors: [{name, shape}]}; `native`: whether the page's engine computes it, else `fallback` is the
                    sentence why not. Tensors have PyTorch's names (`blocks.0.attn.W_QKV`).
    config          {seed, training: {…}}, for people
    metrics         {step, train_loss, val_loss, hop_losses: {hop: […]}}, lists over logged steps; null for what is none
    batch           {seed, n, sizes, inputs, targets, chain, matches, candidates, asked, roles, attended, instances,
                    typing}, below
    paths           [{name, layer, head, query, key, chain}], all that the model has; their order is that of strengths
    checkpoints     [{step, state, told, weights, strengths, patterns, reference, accuracy}], by step, below
    onsets          {path's name: {status, step, after, by, falls}} of all paths that were ever above one half
                    (`hopscope.emergence.onset`), transient ones too; from the checkpoints measured so far
    learnt          {hop: the same} for hops, from metrics
    circuit         circuit.json, with `words` (a paragraph) and `step`; or null
    tour            the six steps of a tour through training (`hopscope.explorer.tour`); null: there is none
    decoders        what the last checkpoint's residual streams hold (`hopscope.explorer.decoders`): {step, n, least,
                    cells, block}; or null
    emergence       emergence.json, with `effects`: {path's name: {effect, low, high}} over `steps`; or null

A batch is drawn with a seed of its own. `sizes` (8, 64, 256 by default) are its first sequences over which losses are
taken; losses over different numbers of sequences are never to be compared.

    inputs          block float32 (n, position, d_input), or int32 (n, position)
    targets         block float32 (n, query, d_output), or int32 (n, query, hop)
    chain           block int8 (n, role, position): the chain in which a position holds a role, −1 none, −2 no chain's
                    (`hopscope.problem.roles`); int32 where a task has many chains
    matches         block uint8 (n, relation, byte), of tasks that are searched in relations: a bit for every query and
                    key, the lowest first, where the key stands in the relation to the query; null for roles
    candidates      block float32 (n, symbol, d_symbol) of vector tasks: the nearest is the answer; null for others
    asked           block int32 (n, query, hop): the right candidate's index, or token; −100: nothing is asked; null
                    where numbers are answered
    roles, attended names of roles, and of those that paths may lead to
    instances       [{symbols, roles, facts, queries, answers, candidates}] of the first 8: per position the symbol's
                    name and the role's label; facts as [[premises], conclusion]; names of candidates
    typing          how people type sequences: {kind: facts}; {kind: tokens, names, free, example}: the tokens one after
                    the other, each by one of its names (an answer is called by the last), or, if `free`, by any; or
                    {kind: none, told}: not at all, and why

A checkpoint:

    state           ready; pending: not measured yet; damaged or missing, and then `told` says in a sentence what is
                    wrong
    weights         block float32 or float16 (parameters): the model's tensors one after the other; null if it is not in
                    this bundle, whose strengths and patterns are then all that is known of it
    strengths       block float32 (path): mean attention over the `n` of `sizes` in the middle (64)
    patterns        block uint8 with scale (layer, instance, head, query, key) of the first 8
    reference       {size: {loss, hop_losses: {hop: loss}}} by PyTorch in float32 from the very weights of the block, or
                    the checkpoint's if it has none: what the page's engine must reproduce, to 1e-5 relative
    accuracy        share of right answers per hop, over the middle size
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy
from numpy.typing import NDArray

FORMAT = 1
#: Numbers of sequences over which losses are taken; the middle one is behind strengths and accuracies.
SIZES = (8, 64, 256)
INSTANCES = 8
DTYPES = ("float32", "float16", "int32", "int8", "uint8")


@dataclass(frozen=True)
class Block:
    """An array as bytes.

    Attributes:
        data: little-endian, in C order.
        dtype: one of `DTYPES`.
        shape: of the array.
        scale: the numbers that the bytes 0 and 255 stand for; None if values are not scaled.
    """

    data: bytes
    dtype: str
    shape: tuple[int, ...]
    scale: tuple[float, float] | None = None

    @classmethod
    def of(cls, array: NDArray[Any]) -> Block:
        """An array of one of the types, or one that fits into them (int64 as int32, bool as uint8)."""
        fits = {"int64": "int32", "float64": "float32", "bool": "uint8"}
        array = array.astype(fits.get(array.dtype.name, array.dtype.name), copy=False)
        if array.dtype.name not in DTYPES:
            raise TypeError(f"a block holds {', '.join(DTYPES)}; got {array.dtype}")
        little = numpy.ascontiguousarray(array.astype(array.dtype.newbyteorder("<"), copy=False))
        return cls(little.tobytes(), array.dtype.name, array.shape)

    @classmethod
    def of_bytes(cls, array: NDArray[Any]) -> Block:
        """Numbers as bytes over a range that includes 0, 1 and all of them; the error is at most 1/510 of the range."""
        low, high = min(0.0, float(array.min(initial=0))), max(1.0, float(array.max(initial=1)))
        scaled = numpy.rint((array - low) / (high - low) * 255).astype(numpy.uint8)
        return cls(scaled.tobytes(), "uint8", array.shape, (low, high))

    @classmethod
    def of_text(cls, text: bytes) -> Block:
        """A file's text."""
        return cls(text, "uint8", (len(text),))

    @classmethod
    def from_entry(cls, data: bytes, entry: Mapping[str, Any]) -> Block:
        """The inverse of `entry`, given the bytes."""
        scale = entry["scale"]
        return cls(data, entry["dtype"], tuple(entry["shape"]), None if scale is None else (scale[0], scale[1]))

    def array(self) -> NDArray[Any]:
        """The array; the inverse of `of`, and of `of_bytes` up to rounding."""
        found = numpy.frombuffer(self.data, numpy.dtype(self.dtype).newbyteorder("<")).reshape(self.shape)
        if self.scale is None:
            return found
        low, high = self.scale
        return low + (high - low) * found.astype(numpy.float64) / 255

    def entry(self) -> dict[str, Any]:
        """The block's entry in the manifest."""
        about = {"dtype": self.dtype, "shape": list(self.shape), "bytes": len(self.data)}
        return about | {"sha256": self.digest, "scale": None if self.scale is None else list(self.scale)}

    @cached_property
    def digest(self) -> str:
        """sha256 of the data."""
        return hashlib.sha256(self.data).hexdigest()


@dataclass(frozen=True)
class Lazy:
    """A block whose data are loaded on demand, such as the weights of a hundred checkpoints.

    Attributes:
        about: its entry in the manifest.
        load: loads the block; may raise Damaged.
    """

    about: Mapping[str, Any]
    load: Callable[[], Block] = field(repr=False)

    @property
    def data(self) -> bytes:
        """Its bytes, the same as when the entry was made. Raises Damaged."""
        return self.load().data

    def array(self) -> NDArray[Any]:
        """Its numbers. Raises Damaged."""
        return self.load().array()

    def entry(self) -> dict[str, Any]:
        """The block's entry in the manifest."""
        return dict(self.about)


@dataclass(frozen=True)
class Bundle:
    """A manifest and the blocks that it lists.

    Attributes:
        manifest: as a value of JSON.
        blocks: by name.
    """

    manifest: dict[str, Any]
    blocks: Mapping[str, Block | Lazy]


def entries(blocks: Mapping[str, Block | Lazy]) -> dict[str, Any]:
    """The manifest's entry of every block."""
    return {name: block.entry() for name, block in blocks.items()}
