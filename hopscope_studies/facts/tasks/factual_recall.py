"""Factual recall: a subject and a relation among noise ask for a memorised fact (Nichani, Lee & Bietti, 2024)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import torch
from jaxtyping import Int
from torch import Tensor

from hopscope.core.seeds import generator
from hopscope.core.settings import BadInput, setting
from hopscope.problem.factsheet import Draw
from hopscope.problem.oracle import Fact, Problem
from hopscope.problem.roles import ABSENT, Roles
from hopscope.tasks.base import TokenTask


@dataclass(frozen=True)
class FactualRecall(TokenTask):
    """A sentence of noise that names a subject s and a relation r somewhere; its last token asks for a*(s, r).

    ```
    n7 s3 n0 n0 n9 n4 r1 n2 ?   ->  a1.2
    ```

    Every relation has D answers of its own, a1.0 … a1.7. The facts are the same in all sequences. So weights must store
    them, and attention only finds what is asked. Answers are tokens that never occur in a sentence; the model outputs
    logits of answers alone.
    """

    length: int = setting(32, "T, positions of a sentence, the question mark included", low=3, high=4096)
    n_subjects: int = setting(16, "S, number of subjects", low=1, high=4096)
    n_relations: int = setting(4, "R, number of relations", low=1, high=4096)
    n_answers: int = setting(8, "D, answers that each relation has", low=1, high=4096)
    n_noise: int = setting(20, "number of noise tokens", low=1, high=65536)
    facts: str = setting(
        "even",
        "what is true: even, subject j has answer ⌊jD/S⌋ of every relation; random, any answer of the relation; "
        "anywhere, any answer of any relation, so that neither part of the question alone tells anything",
        choices=("even", "random", "anywhere"),
    )
    facts_seed: int = setting(0, "of random facts", low=0)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.facts == "even" and self.n_subjects < self.n_answers:
            raise BadInput(
                f"even facts need at least as many subjects as answers, {self.n_answers}; got {self.n_subjects}"
            )

    @property
    def d_output(self) -> int:
        """The number of answers, R D."""
        return self.n_relations * self.n_answers

    @property
    def d_vocab(self) -> int:  # type: ignore[override]
        """The number of tokens: answers, subjects, relations, noise, and the question mark."""
        return self.d_output + self.n_subjects + self.n_relations + self.n_noise + 1

    @property
    def first_relation(self) -> int:
        """The token of r0; the token of s0 is S lower."""
        return self.d_output + self.n_subjects

    query_positions = slice(-1, None)
    hop_names = ("answer",)

    @cached_property
    def known(self) -> Int[Tensor, "subject relation"]:
        """The facts a*(s, r), as numbers of answers; relation i has the answers from i D on."""
        shape = (self.n_subjects, self.n_relations)
        if self.facts == "even":
            place = torch.arange(self.n_subjects)[:, None] * self.n_answers // self.n_subjects
        else:
            random = generator(self.facts_seed, "facts")
            if self.facts == "anywhere":
                return torch.randint(self.d_output, shape, generator=random)
            place = torch.randint(self.n_answers, shape, generator=random)
        return place + self.n_answers * torch.arange(self.n_relations)

    @property
    def answer_parts(self) -> dict[str, Int[Tensor, "output"]]:
        """The block of answers, which the relation determines; the place within it, which the subject determines."""
        answers = torch.arange(self.d_output)
        return {"relation-only": answers // self.n_answers, "subject-only": answers % self.n_answers}

    @property
    def baselines(self) -> dict[str, float]:
        """Losses in nats: ln(R D) if all answers are equally frequent; ln D if all of a relation are; a solved task."""
        by_relation = [entropy(self.known[:, i], self.d_output) for i in range(self.n_relations)]
        return {
            "any answer": entropy(self.known.flatten(), self.d_output),
            "any answer of the relation": sum(by_relation) / self.n_relations,
            "solved": 0.0,
        }

    def draw(self, n: int, generator: torch.Generator) -> Draw:
        def even(high: int, *shape: int) -> Tensor:
            return torch.randint(high, shape, generator=generator, device=generator.device)

        subject_place, relation_place = even(self.length - 1, n, 1), even(self.length - 2, n, 1)
        return {
            "subject": even(self.n_subjects, n, 1),
            "relation": even(self.n_relations, n, 1),
            "subject_place": subject_place,
            "relation_place": relation_place + (relation_place >= subject_place).long(),
            "noise": even(self.n_noise, n, self.length - 1),
        }

    def inputs(self, draw: Draw) -> Int[Tensor, "batch position"]:
        tokens = draw["noise"] + self.first_relation + self.n_relations
        tokens = tokens.scatter(1, draw["subject_place"], draw["subject"] + self.d_output)
        tokens = tokens.scatter(1, draw["relation_place"], draw["relation"] + self.first_relation)
        return torch.nn.functional.pad(tokens, (0, 1), value=self.d_vocab - 1)

    def read(self, tokens: list[int]) -> Draw:
        *sentence, mark = tokens
        noise = [token - self.first_relation - self.n_relations for token in sentence]
        subjects = [at for at, token in enumerate(sentence) if self.d_output <= token < self.first_relation]
        relations = [at for at, token in enumerate(sentence) if -self.n_relations <= noise[at] < 0]
        others = [kind for kind in noise if not 0 <= kind < self.n_noise]
        if mark != self.d_vocab - 1 or (len(subjects), len(relations), len(others)) != (1, 1, 2):
            raise BadInput("a sentence is one subject and one relation among noise, and a question mark at the end")
        return {
            "subject": torch.tensor([[sentence[subjects[0]] - self.d_output]]),
            "relation": torch.tensor([[sentence[relations[0]] - self.first_relation]]),
            "subject_place": torch.tensor([subjects]),
            "relation_place": torch.tensor([relations]),
            "noise": torch.tensor([noise]).clamp(min=0),
        }

    def targets(self, draw: Draw) -> Int[Tensor, "batch query hop"]:
        return self.known.to(draw["noise"].device)[draw["subject"], draw["relation"]][:, None]

    def logits(self, outputs: Tensor) -> Tensor:
        """The outputs for answers; a model's other outputs are dropped."""
        return outputs.float()[..., None, : self.d_output]

    def hop_losses(self, outputs: Tensor, targets: Int[Tensor, "batch query hop"]) -> Tensor:
        return -self.logits(outputs).log_softmax(-1).gather(-1, targets[..., None]).mean((0, 1, 3))

    def roles(self, draw: Draw) -> Roles:
        """The roles of what the query must read: `value[1]` is the subject, `value[2]` the relation."""
        chain = torch.full((len(draw["noise"]), 3, self.n_positions), ABSENT, device=draw["noise"].device)
        chain[:, 0, -1] = 0
        chain[:, 1].scatter_(1, draw["subject_place"], 0)
        chain[:, 2].scatter_(1, draw["relation_place"], 0)
        return Roles(("query", "value[1]", "value[2]"), chain)

    def problem(self, draw: Draw, row: int) -> Problem:
        """The sentence's subject and relation as facts, then all facts about the subject."""
        subject, relation = (int(draw[name][row]) for name in ("subject", "relation"))
        said = (Fact(("?",), f"s{subject}"), Fact(("?",), f"r{relation}"))
        true = (Fact((f"s{subject}", f"r{i}"), self.spoken(subject, i), 2) for i in range(self.n_relations))
        return Problem((*said, *true), ("?",))

    def spoken(self, subject: int, relation: int) -> str:
        """The name of an answer: its relation, and its place in the relation's block."""
        return "a{}.{}".format(*divmod(int(self.known[subject, relation]), self.n_answers))

    @property
    def asked_hops(self) -> slice:
        return slice(-1, None)

    def values(self, draw: Draw, row: int) -> dict[str, Tensor]:
        names = [f"a{i}.{place}" for i in range(self.n_relations) for place in range(self.n_answers)]
        names += [f"s{j}" for j in range(self.n_subjects)] + [f"r{i}" for i in range(self.n_relations)]
        names += [*(f"n{k}" for k in range(self.n_noise)), "?"]
        return {name: torch.tensor(token) for token, name in enumerate(names)}


def entropy(drawn: Int[Tensor, "fact"], n: int) -> float:
    """The entropy, in nats, of the frequencies with which numbers below n occur."""
    shares = torch.bincount(drawn, minlength=n).double() / len(drawn)
    return -sum(share * math.log(share) for share in shares.tolist() if share)
