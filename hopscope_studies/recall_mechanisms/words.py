"""Facts in our own words: countries, capitals and languages, and opposites; two sentences that ask for each.

A fact belongs to a group, its country or its word. Groups are halved and resampled as wholes, so a country's capital is
never judged by heads that were chosen on the country of that capital. No word of an example in a sentence is asked
about.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Fact:
    """One fact.

    Attributes:
        subject: one word.
        answer: one word, which no other subject of the relation has.
        group: the same for all facts about one thing.
    """

    subject: str
    answer: str
    group: str


@dataclass(frozen=True)
class Relation:
    """A relation: facts of one kind.

    Attributes:
        sentences: sentences that ask for the answer as the next word, with `{}` for the subject.
        facts: all facts.
    """

    sentences: tuple[str, ...]
    facts: tuple[Fact, ...]


def pairs(text: str) -> list[tuple[str, str]]:
    """`a b, c d` as pairs."""
    return [(one.split()[0], one.split()[1]) for one in text.split(",")]


CAPITALS = pairs(
    "France Paris, Spain Madrid, Germany Berlin, Japan Tokyo, China Beijing, Russia Moscow, Egypt Cairo, "
    "Greece Athens, Austria Vienna, Portugal Lisbon, Ireland Dublin, Canada Ottawa, Cuba Havana, Poland Warsaw, "
    "Hungary Budapest, Sweden Stockholm, Norway Oslo, Denmark Copenhagen, Finland Helsinki, Iran Tehran, Iraq Baghdad, "
    "India Delhi, Kenya Nairobi, Syria Damascus, Belgium Brussels, England London, Afghanistan Kabul, "
    "Scotland Edinburgh, Australia Canberra, Chile Santiago, Ukraine Kiev, Switzerland Bern, Netherlands Amsterdam, "
    "Philippines Manila, Israel Jerusalem, Bulgaria Sofia, Wales Cardiff, Korea Seoul, Peru Lima"
)
LANGUAGES = pairs(
    "France French, Italy Italian, Spain Spanish, Germany German, Japan Japanese, China Chinese, Russia Russian, "
    "Egypt Arabic, Greece Greek, Ireland Irish, Poland Polish, Hungary Hungarian, Sweden Swedish, Norway Norwegian, "
    "Denmark Danish, Finland Finnish, Turkey Turkish, Iran Persian, India Hindi, Thailand Thai, Kenya Swahili, "
    "England English, Vietnam Vietnamese, Ukraine Ukrainian, Netherlands Dutch, Israel Hebrew, Bulgaria Bulgarian, "
    "Croatia Croatian, Romania Romanian, Korea Korean, Wales Welsh"
)
OPPOSITES = pairs(
    "hot cold, up down, left right, day night, black white, good bad, true false, open closed, old young, fast slow, "
    "high low, rich poor, hard soft, happy sad, light dark, wet dry, full empty, strong weak, early late, thick thin, "
    "long short, love hate, war peace, inside outside, above below, first last, north south, east west, winter summer, "
    "life death, start end, buy sell, win lose, push pull"
)
RELATIONS = {
    "capital": Relation(
        ("The capital of {} is", "Rome is the capital of Italy, and the capital of {} is"),
        tuple(Fact(country, city, country) for country, city in CAPITALS),
    ),
    "country": Relation(
        ("Rome is a city in Italy, and {} is a city in", "Rome is the capital of Italy, and {} is the capital of"),
        tuple(Fact(city, country, country) for country, city in CAPITALS),
    ),
    "language": Relation(
        (
            "The people of Brazil speak Portuguese, and the people of {} speak",
            "The language of Brazil is Portuguese, and the language of {} is",
        ),
        tuple(Fact(country, language, country) for country, language in LANGUAGES),
    ),
    "opposite": Relation(
        ("The opposite of {} is", "The opposite of big is small, and the opposite of {} is"),
        tuple(Fact(word, other, word) for word, other in OPPOSITES),
    ),
}
