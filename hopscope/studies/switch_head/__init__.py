"""SwitchHead: few attention maps, with experts for values and outputs (Csordás et al., 2023, arXiv:2312.07987).

Found: Experts stand in for maps. Two maps of four experts read eight places, which dense attention reads with eight
maps and does not read with two, however wide; at equal weights experts are too narrow to read all. Output experts are
chosen by place, and heads with experts become induction heads.
"""
