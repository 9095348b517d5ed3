"""The cost of ablating heads on repeated segments, next to random heads (Song et al., 2024, arXiv:2408.09503, 4).

A sequence is a start token, random tokens, and the same tokens again. Heads are chosen by their scores on the first
half of the sequences, and ablated on the other half: their output is set to 0. Accuracy and log-probability are means
over the second copy without its first ten tokens. Intervals are 95 %, over sequences.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from hopscope.experiments.reports import Row, row
from hopscope.language.lens.ablation import Ablate, Head, in_same_layers, random_heads, short, top_heads
from hopscope.language.lens.attention import Lens
from hopscope.language.lens.estimates import beyond, mean_of, over_needles
from hopscope.language.lens.filler import SENTENCES
from hopscope.language.lens.scores import WARMING

SIZES = (1, 4, 8, 16)  # heads that are cut together, where that is not more than half of all
MAIN = 8  # how many where there are controls, or the largest of these sizes that there is
DRAWS = 10  # random sets beside the chosen
TEXTS, TEXT_LENGTH = 8, 48  # plain texts, in tokens

MEASURES = ("accuracy", "log_p")


@dataclass(frozen=True)
class Asked:
    """Sequences with tokens to predict, and the streams before each layer.

    Attributes:
        lens: the model.
        tokens: the sequences; shape (sequence, position).
        first: the first position whose token counts.
        streams: the unchanged model's residual streams, by layer; each sequence position d_model.
    """

    lens: Lens
    tokens: Tensor
    first: int
    streams: list[Tensor]

    @classmethod
    def of(cls, lens: Lens, tokens: Tensor, first: int) -> Asked:
        return cls(lens, tokens, first, lens.streams(tokens)[0])

    def without(self, heads: Sequence[Head]) -> dict[str, Tensor]:
        """Accuracy and mean log-probability (nats) with some heads ablated, (sequence,)."""
        edit = Ablate(heads)
        logits = self.lens.run(self.streams[edit.first], edit, edit.first, all_positions=True)
        logits, wanted = logits[:, self.first - 1 : -1], self.tokens[:, self.first :]
        log_p = logits.log_softmax(-1).gather(2, wanted[..., None])[..., 0]
        return {"accuracy": (logits.argmax(-1) == wanted).float().mean(1), "log_p": log_p.mean(1)}


def repeats(lens: Lens, tokens: Tensor) -> Asked:
    """Repeated sequences; the second copies count, without their first ten tokens."""
    return Asked.of(lens, tokens, (tokens.shape[1] - 1) // 2 + 1 + WARMING)


def plain(lens: Lens) -> Asked | None:
    """Text without repeats; None if the model's tokens of it are too few."""
    ids = lens.tokenizer(" ".join(SENTENCES), add_special_tokens=False)["input_ids"]
    if len(ids) < TEXTS * TEXT_LENGTH:
        return None
    return Asked.of(lens, torch.tensor(ids[: TEXTS * TEXT_LENGTH]).view(TEXTS, TEXT_LENGTH), WARMING)


def sets_of(lens: Lens, induction: Tensor, previous: Tensor, seed: int, brief: bool) -> dict[str, list[Head]]:
    """Sets of heads to ablate: the highest induction and previous-token heads, and random ones (fewer if `brief`)."""
    sizes = [size for size in SIZES if size <= len(lens.heads) // 2]
    main = max(size for size in sizes if size <= MAIN)
    sets = {f"induction {size}": top_heads(induction, size) for size in sizes}
    sets["previous"] = top_heads(previous, main)
    chosen = sets[f"induction {main}"]
    for size in (main,) if brief else [size for size in sizes if size >= main]:
        top = sets[f"induction {size}"]
        others = [head for head in lens.heads if head not in top]
        sets |= {f"random {size} {draw}": random_heads(others, size, 100 * seed + draw) for draw in range(DRAWS)}
    for draw in range(DRAWS):
        sets[f"same layers {main} {draw}"] = in_same_layers(chosen, lens.heads, 100 * seed + draw)
    return sets


def cut_rows(asked: Asked, sets: dict[str, list[Head]], text: Asked | None) -> Iterator[Row]:
    """Rows on the loss of accuracy and log-probability for each set; on plain text only for some of the sets."""
    main = max(int(name.split()[1]) for name in sets if name.startswith("random") and int(name.split()[1]) <= MAIN)
    yield from lost_rows(asked, sets, "")
    if text is not None:
        few = {name: heads for name, heads in sets.items() if name.startswith((f"induction {main}", f"random {main} "))}
        yield from lost_rows(text, few, " on plain text")
    yield row("main", "induction", main, other=" ".join(map(short, sets[f"induction {main}"])))


def lost_rows(asked: Asked, sets: dict[str, list[Head]], where: str) -> Iterator[Row]:
    """Rows on these losses for one kind of sequences."""
    whole, sequences = asked.without([]), range(len(asked.tokens))
    yield from (row(f"{measure}{where}", "whole", mean_of(whole[measure], sequences)) for measure in MEASURES)
    found = {name: asked.without(heads) for name, heads in sets.items()}
    for measure in MEASURES:
        lost = {name: whole[measure] - one[measure] for name, one in found.items()}
        for name, values in lost.items():
            other = " ".join(map(short, sets[name]))
            yield row(f"{measure}{where}", name, mean_of(found[name][measure], sequences), other=other)
            yield row(f"lost {measure}{where}", name, mean_of(values, sequences))
        for name in [name for name in lost if not name.startswith(("random", "same"))]:
            size = len(sets[name])
            for control in (f"random {size} ", f"same layers {size} "):
                if beside := [values for which, values in lost.items() if which.startswith(control)]:
                    words = control.rsplit(" ", 2)[0]
                    yield row(
                        f"beyond the worst {words}: {measure}{where}", name, beyond(lost[name], beside, sequences)
                    )
                    stacked = torch.stack([lost[name], torch.stack(beside).mean(0)], 1)
                    apart = over_needles(lambda means: means[:, 0] - means[:, 1], stacked, sequences)
                    yield row(f"beyond the mean {words}: {measure}{where}", name, apart)
