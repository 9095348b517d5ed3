"""Gradient descent in context, in closed form."""
