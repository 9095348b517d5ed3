"""What must go right for an induction head, and what holds it back (Singh et al., 2024). See its README.

Found: The loss stays near ln 2 and then falls in a quarter of the time that it had stayed there. The fall comes earlier
if the previous-token head, a perfect first layer, or the match of labels is supplied by a clamp, and with the match it
comes earliest.
"""
