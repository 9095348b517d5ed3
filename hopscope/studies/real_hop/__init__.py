"""The circuit of a language model's hop, why two hops fail, and what the model would have to change."""
