"""Why the heads of multi-hop retrieval wait: the long plateau of Musat (ICLR 2025, figure 6), and what ends it.

Found: The model waits for one head, which joins the two tokens of a fact. If this join is strong enough at the start,
by whichever prior, almost every run learns every hop. Below a threshold of its strength the join is unlearnt.
"""
