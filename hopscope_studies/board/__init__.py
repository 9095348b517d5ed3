"""The board: trained models of the retrieval problem, ranked by hops and by what these cost (Musat, ICLR 2025; ours).

Found: Of the board's 24 models, nine learn their hops with as few layers as theory allows, and none with fewer. Among
symbols of four dimensions the most hops are seven, by eight layers with a prior for the previous token. Among symbols
of sixteen dimensions they are sixteen, by one layer run seventeen times: four of five seeds without any prior pass, and
one of five of KV shift. Among other rows without a prior the most are two hops, in three layers. Without a curriculum
two models learn nothing. Weights in float16 give the losses of those in float32 to four decimals.
"""
