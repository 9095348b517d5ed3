"""Long- and short-prefix induction heads of a language model: chosen on some sequences, judged and cut on others."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from hopscope.core.seeds import generator
from hopscope.language.lens.ablation import Head, random_heads, short
from hopscope.language.lens.attention import Lens
from hopscope.language.lens.estimates import Number, beyond, number
from hopscope_studies.attention_saes.prefixes import CONDITIONS, LONG, Looks, Sequences, looks, sequences, without

Watch = Callable[[str], None]

SCORE = 0.1  # attention gained after a long prefix from which a head counts as an induction head
HALF = 0.5  # share of the score that a long-prefix head does not reach after one token
MOST = 4  # heads of a kind that are cut together
DRAWS = 10  # random sets, and shufflings
ONE, LAST = CONDITIONS.index(1), CONDITIONS.index(9)
FULL = [CONDITIONS.index(p) for p in LONG]


def vocabulary(lens: Lens) -> Tensor:
    """All tokens that are not special tokens."""
    special = set(lens.tokenizer.all_special_ids)
    return torch.tensor([token for token in range(len(lens.tokenizer)) if token not in special])


def heads_report(lens: Lens, count: int, seed: int, brief: bool, watch: Watch) -> dict[str, Any]:
    """All measurements of one model's heads.

    Args:
        lens: the model.
        count: number of sequences; one half chooses heads, the other half judges them.
        seed: the seed of sequences and random heads.
        brief: whether to leave out the ablation of heads.
        watch: called with a description of each step.
    """
    random = generator(seed, "sequences by prefix")
    drawn = sequences(vocabulary(lens), count, random, lens.tokenizer.bos_token_id)
    watch(f"looking at {count} sequences under {len(CONDITIONS)} conditions")
    seen = looks(lens, drawn)
    half = count // 2
    first, second = seen.scores[:half], seen.scores[half:]
    kinds = {kind: chosen(first, kind) for kind in ("short", "long")}
    report = {
        "sequences": count,
        "log_p": {str(c): number(seen.log_p[:, i]) for i, c in enumerate(CONDITIONS)},
        "heads": [one_head(head, first, second, seen) for head in lens.heads],
        "chosen": {kind: [short(head) for head in found] for kind, found in kinds.items()},
        "shuffled": [len(chosen(mixed(first, seed, draw), "long")) for draw in range(DRAWS)],
        "differ": differ(second, kinds),
        "direct_differ": differ(seen.direct[half:], kinds),
    }
    if not brief and all(kinds.values()):
        watch("cutting heads of both kinds, and random ones")
        report["cut"] = cut(lens, drawn.rows(slice(half, None)), kinds, seen, half, seed)
    return report


def ratio(means: Tensor) -> Tensor:
    """The score after a prefix of one token divided by the mean score after long ones; `means` is (…, condition)."""
    return means[..., ONE] / means[..., FULL].mean(-1).clamp(min=1e-6)


def chosen(scores: Tensor, kind: str) -> list[Head]:
    """Induction heads of a kind, in descending order of their score after long prefixes.

    Args:
        scores: sequence condition layer head.
        kind: short or long.
    """
    means = scores.double().mean(0).permute(1, 2, 0)
    full, shares = means[..., FULL].mean(-1), ratio(means)
    there = full - means[..., 0] >= SCORE
    there &= shares < HALF if kind == "long" else shares >= HALF
    order = full.flatten().argsort(descending=True).tolist()
    found = [divmod(place, full.shape[1]) for place in order]
    return [head for head in found if there[head]]


def mixed(scores: Tensor, seed: int, draw: int) -> Tensor:
    """Scores with prefix lengths permuted within every sequence, as a control; the one without a prefix stays."""
    copied = range(1, LAST + 1)
    order = torch.rand(len(scores), len(copied), generator=generator(seed, "prefixes mixed", draw)).argsort(1)
    found = scores.clone()
    found[:, 1 : LAST + 1] = scores[torch.arange(len(scores))[:, None], 1 + order]
    return found


def one_head(head: Head, first: Tensor, second: Tensor, seen: Looks) -> dict[str, Any]:
    """One head's scores by prefix over all sequences, and its score and ratios on the judging half."""
    layer, which = head
    curve, held = torch.cat([first, second])[..., layer, which], second[..., layer, which]
    full = held[:, FULL].mean(1)
    return {
        "head": short(head),
        "layer": layer,
        "score": number(full),
        "by_prefix": curve.mean(0).tolist(),
        "direct": seen.direct[..., layer, which].mean(0).tolist(),
        "ratio": number(held, ratio),
        "scrambled": number(held, lambda means: means[:, -1] / means[:, LAST].clamp(min=1e-6)),
    }


def differ(scores: Tensor, kinds: dict[str, list[Head]]) -> Number | None:
    """The share of the full score after one token: mean of short-prefix heads minus mean of long-prefix heads."""
    if not all(kinds.values()):
        return None
    rows = torch.stack([of_some(scores, kinds[kind]) for kind in ("short", "long")], 1)
    return number(rows, lambda means: ratio(means[:, 0]) - ratio(means[:, 1]))


def of_some(scores: Tensor, heads: list[Head]) -> Tensor:
    """Mean scores over some heads; shape (sequence, condition)."""
    return torch.stack([scores[..., layer, head] for layer, head in heads]).mean(0)


def cut(
    lens: Lens, drawn: Sequences, kinds: dict[str, list[Head]], seen: Looks, half: int, seed: int
) -> dict[str, Any]:
    """The loss without heads of each kind, after one token and after nine, on sequences that chose no heads."""
    size = min(MOST, *(len(found) for found in kinds.values()))
    sets = {kind: found[:size] for kind, found in kinds.items()}
    first = min(layer for found in sets.values() for layer, _ in found)
    taken = {head for found in kinds.values() for head in found}
    others = [head for head in lens.heads if head[0] >= first and head not in taken]
    sets |= {f"random {draw}": random_heads(others, size, 100 * seed + draw) for draw in range(DRAWS)}
    names = list(sets)
    left = without(lens, drawn, list(sets.values()), (ONE, LAST))
    whole = seen.log_p[half:][:, [ONE, LAST]]
    lost = (whole - left).permute(1, 0, 2)  # sequence set condition
    gained, rows = whole - seen.log_p[half:, :1], range(len(whole))
    beside = [names.index(name) for name in names if name.startswith("random")]
    return {
        "heads": {name: [short(head) for head in found] for name, found in sets.items()},
        "lost": {name: [number(lost[:, i, c]) for c in range(2)] for i, name in enumerate(names)},
        "gained": [number(gained[:, c]) for c in range(2)],
        "beyond": {
            kind: [beyond(one[names.index(kind)], [*one[beside]], rows) for one in lost.permute(2, 1, 0)]
            for kind in ("short", "long")
        },
        "interaction": interaction(lost, gained, names),
    }


def interaction(lost: Tensor, gained: Tensor, names: list[str]) -> Number:
    """How much more the share of short-prefix heads falls from one token to nine than that of long-prefix heads.

    A share is the loss without these heads, over the prefix's gain. If long-prefix heads serve long prefixes, the
    difference is positive.
    """
    rows = torch.cat([lost[:, [names.index("short"), names.index("long")]], gained[:, None]], 1)

    def of(means: Tensor) -> Tensor:
        part = means[:, :2] / means[:, 2:]
        drop = part[..., 0] - part[..., 1]
        return drop[:, 0] - drop[:, 1]

    return number(rows, of)
