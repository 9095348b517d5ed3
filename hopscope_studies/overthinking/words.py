"""Our own words, in sets of three kinds: `unnatural`, and another.

Halawi et al. (2023, arXiv:2307.09476, section 2) made `unnatural` of thirty plants, sports and animals, after Rong
(2021, "Extrapolating to unnatural language processing with GPT-3's in-context learning"). None of the words here is
theirs.
"""

from __future__ import annotations

UNNATURAL = {
    "plant": (
        "oak pine maple willow birch cedar fern moss ivy rose tulip daisy lily orchid cactus bamboo clover violet "
        "poppy thistle nettle heather jasmine lavender holly elm beech reed palm sage"
    ),
    "sport": (
        "polo cricket fencing sailing wrestling netball handball surfing skating curling darts snooker croquet hurling "
        "kayaking canoeing softball sprinting hurdling javelin discus bobsleigh sumo kickboxing dodgeball windsurfing "
        "racquetball orienteering trampolining skateboarding"
    ),
    "animal": (
        "otter badger falcon rabbit donkey goat whale dolphin eagle beaver hamster moose gorilla salmon shark penguin "
        "parrot raven frog toad mouse fox bear pig hen bee octopus seal crab owl"
    ),
}
HOUSEHOLD = {
    "food": (
        "bread cheese butter rice pasta soup stew pizza sausage bacon omelette pancake biscuit cake pie pudding "
        "yoghurt honey jam porridge salad sandwich noodles curry burger chocolate toast cereal lasagne dumpling"
    ),
    "clothing": (
        "shirt jacket trousers skirt dress sweater coat scarf gloves hat socks shoes boots sandals belt tie vest "
        "blouse jeans shorts pyjamas cardigan hoodie tunic apron cape robe mittens bonnet leggings"
    ),
    "vehicle": (
        "car bus truck van tram train bicycle scooter motorcycle taxi lorry tractor ferry yacht canoe ship submarine "
        "helicopter airplane jet glider rocket ambulance limousine wagon carriage sled tank barge trolley"
    ),
}
#: The labels of each set, each with its words.
SETS: dict[str, dict[str, tuple[str, ...]]] = {
    name: {label: tuple(words.split()) for label, words in kinds.items()}
    for name, kinds in (("unnatural", UNNATURAL), ("household", HOUSEHOLD))
}
