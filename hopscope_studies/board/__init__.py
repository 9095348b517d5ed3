"""The board: trained models of the retrieval problem, ranked by hops and by what these cost (Musat, ICLR 2025; ours).

Found: (to be written from the table)
"""
