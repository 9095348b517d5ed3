"""An example of a plug-in: its folders are laid out like those of hopscope, and searched after them."""
