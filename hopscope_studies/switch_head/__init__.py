"""SwitchHead: few attention maps, with experts for values and outputs (Csordás et al., 2023, arXiv:2312.07987).

Found: Experts can replace attention maps. Two maps of four experts each read eight places. Dense attention reads them
with eight maps, but not with two, however wide these are. If the number of weights is that of dense attention, experts
are too narrow to read all places. Output experts are chosen by place, and heads with experts become induction heads.
"""
