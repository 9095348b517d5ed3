"""What must go right for an induction head, and what holds it back (Singh et al., 2024). See its README."""
