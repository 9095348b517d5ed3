"""What a head says of questions that it was never asked: the argument of another head's answer (Geva et al., 2021)?

Found: Mostly the argument of the other head's computation. Where both heads learn their own tasks, the unasked head
names the middle of the chain in 99 % of sequences in seven runs of eight, and in the eighth the end. In two of these
seven the other head uses what it reads. In the five in which first pairs come first it never does. So what a head names
does not show what is computed with.
"""
