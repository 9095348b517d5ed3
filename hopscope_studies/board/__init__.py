"""The board: trained models of the retrieval problem, ranked by hops and by what these cost (Musat, ICLR 2025; ours).

Found: Of 21 rows, eight have as few layers as their hops can have, and none has fewer. With a prior for the previous
token eight layers learn seven hops, the most of any row; without a prior the most are two, in three layers. Without a
curriculum two rows learn nothing. Weights in float16 give the losses of those in float32 to four decimals.
"""
