"""Why the heads of multi-hop retrieval wait: the long plateau of Musat (ICLR 2025, figure 6), its cause and its end.

Found: The wait is for one head, which joins the two tokens of a fact. A model that is given the join, in whichever way,
learns every hop. Below a threshold the join is unlearnt.
"""
