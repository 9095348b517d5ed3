"""What must go right for an induction head, and what holds it back (Singh et al., 2024). See its README.

Found: The loss waits near ln 2 and then falls in a quarter of the time that it had waited. Clamping the previous-token
head, a perfect first layer, or the match brings the change forward, the match the most.
"""
