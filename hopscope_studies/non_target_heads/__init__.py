"""What a head predicts on questions that it was not trained on (Geva et al., 2021).

Found: On a question that it was not trained on, an output head mostly names the argument of the other head's
computation. With pairs in any order both output heads learn their tasks in four runs of ten. In three of the four the
unasked head names the middle of the chain in 99 % of sequences, and the other head uses what it reads; in the fourth it
names the end. With first pairs first all five runs learn, the unasked head names the middle, and in none does the other
head use it. So what a head names does not show what is computed with.
"""
