"""Training: the loop, many models as one batched program, optimizers, progress bars and mirrors."""
