"""What a head says of questions that it was never asked: the argument of another head's answer (Geva et al., 2021)?

Found: Mostly. Where both heads learn their own tasks, the unasked head names the middle of the chain in 99 % of
sequences in seven runs of eight, and in the eighth the end. In two of these the other head goes by what it reads; in
the five whose first pairs come first it never does. So what a head names is no sign of what is computed with.
"""
