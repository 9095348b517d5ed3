"""The circuit of a language model's hop, why two hops fail, and what would have to change in the model.

Found: Sixteen to nineteen of SmolLM2's 300 heads and MLPs carry its one hop: without them the right answer has no lead
over a wrong one. On other facts they alone keep 0.78 to 0.92 of this lead. Two hops fail because the first hop's answer
reaches the query about two layers after it could last be used. With perfect attention in one head every single hop
would be right. Four of Gemma 3's 90 nodes keep all of its hop. In Gemma the first hop's answer is at the query in time,
but is not read.
"""
