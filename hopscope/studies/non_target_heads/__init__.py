"""What a head says of questions that it was never asked: the argument of another head's answer (Geva et al., 2021)."""
