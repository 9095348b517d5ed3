"""What a head says of questions that it was never asked: the argument of another head's answer (Geva et al., 2021)?

Found: Mostly the argument of the other head's computation. Where both heads learn their own tasks, the unasked head
names the middle of the chain in 99 % of sequences in eight runs of nine, and in the ninth the end. In three of these
eight the other head uses what it reads. In the five in which first pairs come first it never does. So what a head names
does not show what is computed with.
"""
