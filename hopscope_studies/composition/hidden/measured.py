"""The work of `hidden_rules`: prompts asked of a language model with heads cut, or of a script that knows the rules."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hopscope.core.settings import BadInput, setting
from hopscope.experiments.reports import OfModel
from hopscope_studies.composition.hidden.prompts import CHANCE, FORMS, KINDS, Prompt, followed, prompt

if TYPE_CHECKING:
    from torch import Tensor

    from hopscope.language.lens.ablation import Head
    from hopscope.language.lens.attention import Lens

SCRIPT = "a script"
CUT, DRAWS = 8, 2  # heads that are cut together, and random sets of as many for each seed
SEQUENCES, LENGTH = 12, 25  # repeated random tokens that choose the heads, and tokens of a copy


@dataclass(frozen=True)
class HiddenRules(OfModel):
    """How many prompts of each kind and form are answered rightly, with and without some heads."""

    label, file = "hidden-rules", "hidden_rules.json"

    model: str = setting("smollm2", f"which; `{SCRIPT}` knows the rules")
    count: int = setting(24, "prompts of each kind and form", low=1)
    seed: int = setting(0, "of prompts, random heads, and the tokens that choose induction heads", low=0)

    @property
    def part(self) -> str:  # type: ignore[override]
        return "scripted" if self.model == SCRIPT else super().part

    def report(self) -> dict[str, Any]:
        """The rows of the table. Raises BadInput for a model not built like Llama, or with other tokens."""
        return {"rows": list(self.scripted() if self.model == SCRIPT else self.asked())}

    def prompts(self, kind: str, form: str) -> list[Prompt]:
        """The prompts of a kind and form under this seed."""
        return [prompt(kind, form, self.seed, index) for index in range(self.count)]

    def row(self, kind: str, form: str, cut: str, right: Sequence[bool]) -> dict[str, Any]:
        """How many prompts are answered rightly."""
        about = {"kind": kind, "form": form, "cut": cut, "chance": CHANCE[kind]}
        return {**about, "n": len(right), "right": sum(map(bool, right))}

    def scripted(self) -> Iterator[dict[str, Any]]:
        """A row for each kind and form."""
        for kind, form in ((kind, form) for kind in KINDS for form in FORMS):
            asked = self.prompts(kind, form)
            yield self.row(kind, form, "nothing", [followed(kind, one) == one.answer for one in asked])

    def asked(self) -> Iterator[dict[str, Any]]:
        """A row for each kind, form and set of heads; with shuffled examples no head is cut."""
        import torch

        from hopscope.language.lens.attention import Lens
        from hopscope.language.lens.scores import head_scores, repeated_tokens

        lens = Lens(self.opened())
        with torch.no_grad():
            tokens = repeated_tokens(lens, self.seed, SEQUENCES, LENGTH)
            sets = sets_of(lens, head_scores(lens, tokens, LENGTH)[0]["induction"], self.seed)
            for kind, form in ((kind, form) for kind in KINDS for form in FORMS):
                some = {"nothing": sets["nothing"]} if form == "shuffled" else sets
                for cut, right in right_without(lens, self.prompts(kind, form), int(tokens[0, 0]), some):
                    yield self.row(kind, form, cut, right)


def sets_of(lens: Lens, induction: Tensor, seed: int) -> dict[str, list[Head]]:
    """Sets of heads to cut: none, the highest induction scores (layer, head), and random sets of as many heads."""
    from hopscope.language.lens.ablation import in_same_layers, random_heads, top_heads

    chosen = top_heads(induction, min(CUT, len(lens.heads) // 4))
    others = [head for head in lens.heads if head not in chosen]
    sets = {"nothing": [], "induction": chosen}
    for draw in range(DRAWS):
        sets[f"random {draw}"] = random_heads(others, len(chosen), 100 * seed + draw)
        sets[f"same layers {draw}"] = in_same_layers(chosen, lens.heads, 100 * seed + draw)
    return sets


def right_without(
    lens: Lens, prompts: Sequence[Prompt], start: int, sets: dict[str, list[Head]]
) -> Iterator[tuple[str, list[bool]]]:
    """For each set of heads, whether the likeliest choice is the right one if the set's outputs are 0, by prompt."""
    from hopscope.language.lens.ablation import Ablate

    ids, choices, right = encoded(lens, prompts, start)
    streams, whole = lens.streams(ids)
    for name, heads in sets.items():
        edit = Ablate(heads)
        logits = lens.run(streams[edit.first], edit, edit.first) if heads else whole
        yield name, (logits.gather(1, choices).argmax(1) == right).tolist()


def encoded(lens: Lens, prompts: Sequence[Prompt], start: int) -> tuple[Tensor, Tensor, Tensor]:
    """Tokens (prompt, position) after the start token, the choices' tokens (prompt, choice), and the right choices.

    Raises BadInput if a word or symbol is more than one token.
    """
    import torch

    def tokens(text: str) -> list[int]:
        return list(lens.tokenizer(text, add_special_tokens=False)["input_ids"])

    ids = [[start, *tokens(one.text)] for one in prompts]
    choices = [[tokens(f" {choice}") for choice in one.choices] for one in prompts]
    if len(set(map(len, ids))) > 1 or any(len(choice) != 1 for row in choices for choice in row):
        raise BadInput(f"hidden rules need a model in which each word is one token; {lens.name} splits some of them")
    right = torch.tensor([one.choices.index(one.answer) for one in prompts])
    return torch.tensor(ids), torch.tensor(choices)[..., 0], right
