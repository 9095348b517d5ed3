"""The hay: plain sentences (ours) that share no content with needles.

None contains a content word or a preposition of a needle, so a needle's words occur only in the needle.
"""

SENTENCES = (
    "The river was low that summer, and boys walked across it on flat stones.",
    "Most of the letters in the drawer had never been answered.",
    "A train left for the coast at seven, but hardly anyone took it.",
    "In winter the lake froze from the shore towards the middle.",
    "She had learned to cook from her uncle, who had been a sailor.",
    "Nobody remembered who had planted the two old apple trees.",
    "The teacher asked for silence and got it after a while.",
    "When the wind turned, one could hear the trains from the valley.",
    "He wrote with a pencil because ink made him nervous.",
    "The new bridge was finished a year later than planned.",
    "Bread was cheap in those years, and shoes were not.",
    "They measured the rain in a glass that stood on the roof.",
    "His brother wanted to study the weather and became a lawyer.",
    "The road to the quarry was closed after the storm.",
    "At noon the square was empty, even in spring.",
    "Her first map of the island had no mountains on it.",
    "The doctor came by bicycle, whatever the weather.",
    "Some of the houses had names, and others had numbers.",
    "It took them an hour to agree on the shape of the table.",
    "The cat slept on the newspaper until someone wanted to read it.",
    "Two of the clocks in the station showed different times.",
    "The orchestra practised in a hall that had been a stable.",
    "Grass grew between the rails, for no train had passed in months.",
    "He could tell the season by the smell of the fields.",
    "Their neighbour played the same song on the piano for years.",
    "The museum opened late and closed early.",
    "Snow fell in the night, and by morning it was gone.",
    "The children called the hill a mountain, and so it stayed one.",
    "An old law forbade fishing after dark, but nobody knew why.",
    "The shop sold maps of countries that no longer existed.",
    "She preferred to travel by night, since the carriages were quieter.",
    "From the tower one could see three borders on a clear day.",
    "The factory made buttons first, then radios, then nothing.",
    "He had read the book twice and still forgot how it ended.",
    "The harvest was good, though the potatoes came late.",
    "A dog followed the postman as far as the last farm.",
    "In the evening the streets filled with people who had nothing to do.",
    "The mayor promised a library and built a fountain.",
    "Only one of the four roads out of town was paved.",
    "The sea was too cold for swimming, but they swam anyway.",
    "My aunt believed that bad news travels faster by telephone.",
    "The photograph showed six men, and five of them were smiling.",
    "Cheese from the hills was said to taste of thyme.",
    "The engineer drew the tunnel a little too short.",
    "Before the war there had been a theatre on the corner.",
    "The fog lifted around ten, and the ships began to move.",
    "He spoke four languages, all of them slowly.",
    "The first frost came early and took the tomatoes.",
    "They had no clock in the house and were never late.",
    "The village had one telephone, which hung in the bakery.",
    "After the concert the musicians ate soup in the cellar.",
    "The path along the canal was longer, but it was shaded.",
    "A new owner bought the mill and changed nothing.",
    "The judge was known for his patience and for his hats.",
    "Rain had washed the date from the gravestone.",
    "The ferry ran every hour, unless the captain was tired.",
)


# The parts of needles, which are made up so that no model can know them.
DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
PEOPLE = ("baker", "miller", "widow", "gardener", "tailor", "hunter", "priest", "smith", "painter", "weaver")
PLACES = ("Orlen", "Tamsk", "Velby", "Corda", "Minsel", "Hadra", "Quarn", "Lestow", "Ibrin", "Sofal")
VERBS = (("hide", "hides"), ("keep", "keeps"), ("sell", "sells"), ("hang", "hangs"), ("store", "stores"))
NUMBERS = ("nine", "eleven", "twelve", "thirteen", "fifteen", "sixteen", "twenty", "thirty", "forty", "sixty")
KINDS = ("copper", "wooden", "silver", "broken", "yellow", "purple", "velvet", "rusty", "crooked", "golden")
THINGS = ("spoons", "lanterns", "feathers", "ribbons", "keys", "bottles", "candles", "mirrors", "needles", "baskets")
WHERE = ("behind", "under", "beside", "inside", "above")
LOOKS = ("green", "narrow", "marble", "painted", "leather", "hollow", "dusty", "crimson", "round", "locked")
SPOTS = ("cupboard", "chimney", "ladder", "curtain", "statue", "wagon", "barrel", "gate", "organ", "wardrobe")
