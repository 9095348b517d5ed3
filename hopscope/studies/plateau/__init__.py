"""Why the heads of multi-hop retrieval wait: the long plateau of Musat (ICLR 2025, figure 6), its cause and its end."""
