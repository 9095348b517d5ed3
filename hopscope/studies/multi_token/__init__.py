"""Several tokens ahead, several hops ahead: does asking for more build induction heads sooner (Gloeckle et al., 2024)?"""
