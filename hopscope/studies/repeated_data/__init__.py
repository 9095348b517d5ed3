"""What repeated data does to copying (Hernandez et al., 2022, arXiv:2205.10487): a toy analogue."""
