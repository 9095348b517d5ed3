"""The board: trained models of the retrieval problem, ranked by hops and by what these cost (Musat, ICLR 2025; ours).

Found: Of the board's 21 models, eight learn their hops with as few layers as these hops can have, and none with fewer.
With a prior for the previous token eight layers learn seven hops, the most of any model. Without a prior the most are
two hops, in three layers. Without a curriculum two models learn nothing. Weights in float16 give the losses of those in
float32 to four decimals.
"""
