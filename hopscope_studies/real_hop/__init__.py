"""The circuit of a language model's hop, why two hops fail, and what would have to change in the model.

Found: Sixteen to nineteen of SmolLM2's 300 heads and MLPs carry its answers at one hop: without them the right answer
has no lead over a wrong one. On other facts these heads and MLPs alone keep 0.78 to 0.92 of this lead. Two hops fail
because the first hop's answer reaches the query about two layers after it could last be used. If one head attended
perfectly, every single hop would be answered right. In Gemma 3 270M four of 90 heads and MLPs keep all of the lead, and
the first hop's answer is at the query in time, but is not read.
"""
