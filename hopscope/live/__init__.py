"""A circuit of anyone's model: a live module and its owner's tensors and loss, without a run folder or a task here."""
