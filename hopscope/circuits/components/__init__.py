"""Circuits of components: heads and MLPs as nodes, and edges between them, in the field's terms (ACDC, EAP, MIB)."""
