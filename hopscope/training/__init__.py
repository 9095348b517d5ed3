"""Training: the loop, many models as one program, and those who are told how it goes."""
