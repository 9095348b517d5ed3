"""What can be found inside a language model; studies bring the readings."""
