"""Circuits: which attention paths a model needs, found without looking at maps (Musat, ICLR 2025, appendix E).

Terms of this package (docs/circuits.md explains them at length):

- *path*, *row*, *unit*: the attention of one head from one role to another; all attention of one head from one role;
  either of the two (`units`).
- *null*: the fixed pattern that replaces the attention of an *idle* row or head (`changes`).
- *by hand*: all patterns are given. *Live*: the patterns of a circuit are computed by the model, all else is null.
  *At averages*: as live, but all other heads output their means (`averages`). *Silenced*: some units are null in the
  otherwise unchanged model.
- *joint test*: the four tests of a circuit (`Exam.tests`), by their names in circuit.json: `rows` (live, with whole
  rows), `live` (with the paths alone), `average` and `circuit` (by hand). `sufficiency` puts sets of units to it.
- *discovery*, *selection*, *report*: the sequences to choose rows and rules on, to set thresholds and order circuits
  on, and to judge the result on. The joint test draws its own.
- *undecided* or *open*: rejected only because the sequences do not tell the loss from the threshold (`sequential`).
- *dormant* or *asleep*: of a path that suffices although the full model does not use it (`use`).
- *hair*: a difference between losses that is too small to count (`exam.HAIR`).

Begin with `discovery`, whose function `search` is the whole algorithm. It uses `exam` (what is tested on which
sequences), `search` (minimal sets), `sufficiency` (the joint test), `completeness` (the proof) and `report` (the
verdict). `components` has the search for circuits of heads, MLPs and edges, as in ACDC.
"""
