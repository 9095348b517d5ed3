"""A census of circuits: which ones do trained models have, how often, and what decides (beyond Musat, ICLR 2025).

Found: TO BE FOUND.
"""
