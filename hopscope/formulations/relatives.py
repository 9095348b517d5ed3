"""Relatives: engineers live with their mothers, where does Alex live? (Musat, ICLR 2025, sections 4 and A.5)."""

from __future__ import annotations

from dataclasses import dataclass

from hopscope.core.settings import setting
from hopscope.formulations.base import Formulation, Question, check_rounds
from hopscope.formulations.base_draw import Draw
from hopscope.formulations.base_names import listed
from hopscope.formulations.base_words import Statement, Word, compose, written
from hopscope.problem.oracle import Fact

# The first four of these are the paper's; so are as many relatives and countries as four chains need.
PEOPLE = ("John", "Chris", "Diana", "Eve", "Sarah", "Paul")
JOBS = ("doctor", "lawyer", "teacher", "engineer", "nurse", "farmer")
RELATIONS = ("mother", "sister", "father", "brother", "aunt", "uncle")
FEMALE = ("mother", "sister", "aunt")
WOMEN = listed(
    "Cathy Dana Isabelle Jane Lily Nancy Olivia Penny Rachel Susan Tara Ursula Wendy Yvonne Zoe Amy Betty Carla"
)
MEN = listed("Adam Bob Ed Fred George Hank Kevin Mike Quentin Ralph Steve Tom Victor Will Xavier Zack Andy Brian")
COUNTRIES = listed(
    """
    Argentina Brazil Canada Denmark England France Germany Hungary Italy Japan Kenya Laos Mexico Norway Peru Qatar
    Rwanda Spain Turkey Uganda Vietnam Yemen Zambia
    Austria Belgium Chile Ecuador Finland Greece Iceland Jordan Malta Nepal Poland Sweden Thailand
    """
)
CLOSING = ("Where does {} live? Say directly only the name, without any other words.", "{} lives in")


@dataclass(frozen=True)
class Relatives(Formulation):
    """N people have N relatives each, who live in N × N countries; a person's job says with which relative they live.

    ```
    Dana lives in Brazil.              key[4]   value[4]
    Cathy lives in Canada.
    Johns mother is Cathy.             key[3a] key[3b]  value[3]
    Johns sister is Dana.
    Doctors live with their sisters.   key[2]   value[2]
    John works as a doctor.            key[1]   value[1]
    Where does John live? Say directly only the name, without any other words.
    ```

    There are four rounds of retrieval: John gives doctor, doctor gives sister, John and sister together give Dana, and
    Dana gives Brazil. As in A.5, the first block is shuffled; people, relations and jobs are listed in a fixed order,
    and what they are linked to is random. Names are the first of their lists, women's for mothers, sisters and aunts.

    Chain j belongs to the j-th person. Relatives with whom nobody lives belong to no chain.
    """

    n_hops: int = setting(4, "rounds of retrieval; this wording has 4: job, relation, relative, country")
    n_chains: int = setting(4, "people, jobs and relatives of each, N (A.5: 4)", low=2, high=len(PEOPLE))

    def __post_init__(self) -> None:
        super().__post_init__()
        check_rounds("relatives", self.n_hops, 4)

    @property
    def chance(self) -> float:
        return 1 / self.n_chains**2

    def question(self, seed: int, index: int) -> Question:
        n, draw = self.n_chains, Draw(self.name(), self.identifying(), seed, index)
        people, jobs = PEOPLE[:n], JOBS[:n]
        relatives = self.drawn_relatives(draw)
        country_of = dict(zip(relatives.values(), (COUNTRIES[i] for i in draw.permutation(n * n)), strict=True))
        relation_of = dict(zip(jobs, (RELATIONS[i] for i in draw.permutation(n)), strict=True))
        job_of = dict(zip(people, (jobs[i] for i in draw.permutation(n)), strict=True))
        shuffled, asked = draw.permutation(n * n), draw.below(n)
        chain_of_job = {job_of[person]: c for c, person in enumerate(people)}
        chain_of = {(person, relation_of[job_of[person]]): c for c, person in enumerate(people)}
        family = [(*pair, name, chain_of.get(pair)) for pair, name in relatives.items()]
        statements = [lives(name, country_of[name], chain) for _, _, name, chain in (family[i] for i in shuffled)]
        statements += [has(*member) for member in family]
        statements += [lives_with(job, relation_of[job], chain_of_job[job]) for job in jobs]
        statements += [works(person, job_of[person], c) for c, person in enumerate(people)]
        job = job_of[people[asked]]
        relative = relatives[people[asked], relation_of[job]]
        return compose(
            self,
            seed,
            index,
            statements,
            closing=CLOSING,
            query=people[asked : asked + 1],
            asked=asked,
            chain=(people[asked], job, relation_of[job], relative, country_of[relative]),
            acceptable=tuple(sorted(COUNTRIES[: n * n])),
        )

    def drawn_relatives(self, draw: Draw) -> dict[tuple[str, str], str]:
        """Each person's relative in each relation."""
        pairs = [(person, relation) for person in PEOPLE[: self.n_chains] for relation in RELATIONS[: self.n_chains]]
        drawn: dict[tuple[str, str], str] = {}
        for names, female in ((WOMEN, True), (MEN, False)):
            fitting = [pair for pair in pairs if (pair[1] in FEMALE) is female]
            drawn |= zip(fitting, (names[i] for i in draw.permutation(len(fitting))), strict=True)
        return {pair: drawn[pair] for pair in pairs}


def lives(relative: str, country: str, chain: int | None) -> Statement:
    """A line such as `Lily lives in Brazil.`"""
    line = written("{} lives in {}.", Word(relative, "key[4]", chain), Word(country, "value[4]", chain))
    return Statement(Fact((relative,), country, 4), line)


def has(person: str, relation: str, relative: str, chain: int | None) -> Statement:
    """A line such as `Eves mother is Lily.`, without an apostrophe, as in A.5."""
    keys = Word(f"{person}s", "key[3a]", chain), Word(relation, "key[3b]", chain)
    return Statement(
        Fact((person, relation), relative, 3), written("{} {} is {}.", *keys, Word(relative, "value[3]", chain))
    )


def lives_with(job: str, relation: str, chain: int) -> Statement:
    """A line such as `Lawyers live with their mothers.`"""
    words = Word(f"{job.capitalize()}s", "key[2]", chain), Word(f"{relation}s", "value[2]", chain)
    return Statement(Fact((job,), relation, 2), written("{} live with their {}.", *words))


def works(person: str, job: str, chain: int) -> Statement:
    """A line such as `Eve works as a lawyer.`"""
    article = "an" if job[0] in "aeiou" else "a"
    words = Word(person, "key[1]", chain), Word(job, "value[1]", chain)
    return Statement(Fact((person,), job, 1), written(f"{{}} works as {article} {{}}.", *words))
