"""Several tokens ahead, several hops ahead: are induction heads built sooner (Gloeckle et al., 2024)?"""
