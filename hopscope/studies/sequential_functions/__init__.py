"""In-context learning of functions that make their own sequence, with clean and with random labels. See its README.

Found: A transformer learns a function from the sequence that the function makes, to within a tenth of the posterior
mean. Random labels cost it less than they cost least squares.
"""
