"""What must go right for an induction head, and what holds it back (Singh et al., 2024). See its README.

Found: The model waits near ln 2 and then changes within a quarter of that time. Clamping the previous-token head, a
perfect first layer, or the match brings the change forward, the match the most.
"""
