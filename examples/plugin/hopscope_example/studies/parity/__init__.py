"""Parity: does a recurrent network learn running sums modulo 2?"""
