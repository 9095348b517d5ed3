"""The residual stream of a built transformer, and the neurons that compute on it: registers, gates, squares.

Neurons are GELUs, so what they compute is exact only in the limit; the constants here keep errors near 1e-4:

- *gates*: gelu(x + z) − gelu(z) is x for large z, and 0 for large −z, so a number passes only where z says so;
- *steps*: gelu(z + ½) − gelu(z − ½) is 1 or 0;
- *squares*: gelu(εx) + gelu(−εx) is √(2/π) ε²x² for small ε.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

#: A linear form of the stream: dimension -> weight.
Form = dict[int, float]

OPEN = 16.0  # |z| of a gate: exceeds any component of a symbol by more than 6, where GELU is linear
SHARP = 12.0  # |z| of a step
SMALL = 0.01  # ε of a square
CURVATURE = math.sqrt(2 / math.pi)


@dataclass(frozen=True)
class Gate:
    """An affine form of the stream: at least `OPEN` where a number is to pass, at most −`OPEN` elsewhere."""

    form: Form
    bias: float

    def times(self, factor: float) -> Gate:
        return Gate({d: factor * w for d, w in self.form.items()}, factor * self.bias)


#: A set of positions, as a signed sum of gates.
Gates = Sequence[tuple[float, Gate]]


class Registers(dict[str, range]):
    """Ranges of dimensions of the residual stream, by name."""

    @property
    def width(self) -> int:
        """The number of dimensions in use."""
        return sum(map(len, self.values()))

    def add(self, name: str, width: int) -> range:
        """Reserve new dimensions under a name."""
        assert name not in self, name
        self[name] = range(self.width, self.width + width)
        return self[name]


@dataclass
class Neurons:
    """The MLP of one layer, neuron by neuron."""

    reads: list[Form] = field(default_factory=list)
    biases: list[float] = field(default_factory=list)
    writes: list[Form] = field(default_factory=list)
    offset: Form = field(default_factory=dict)

    def add(self, reads: Form, bias: float, writes: Form) -> None:
        self.reads.append(reads)
        self.biases.append(bias)
        self.writes.append(writes)

    def step(self, gate: Gate, writes: Form) -> None:
        """Add `writes` where the gate is open. The gate must be at least `SHARP` or at most −`SHARP` everywhere."""
        self.add(gate.form, gate.bias + 0.5, writes)
        self.add(gate.form, gate.bias - 0.5, {d: -w for d, w in writes.items()})

    def shift(self, writes: Form) -> None:
        """Add a constant to the stream."""
        for dimension, weight in writes.items():
            self.offset[dimension] = self.offset.get(dimension, 0.0) + weight

    def pass_through(self, source: range, target: range, gates: Gates, share: float = 1.0) -> None:
        """Add one register, times `share`, to another, at a set of positions."""
        for sign, gate in gates:
            for here, there in zip(source, target, strict=True):
                reads = dict(gate.form)
                reads[here] = reads.get(here, 0.0) + 1.0
                self.add(reads, gate.bias, {there: sign * share})
            self.add(gate.form, gate.bias, dict.fromkeys(target, -sign * share))

    def square(self, source: range, target: int) -> None:
        """Add the squared norm of a register to a dimension."""
        for dimension in source:
            for sign in (1.0, -1.0):
                self.add({dimension: sign * SMALL}, 0.0, {target: 1 / (CURVATURE * SMALL**2)})

    def weights(self, d_model: int, d_mlp: int) -> dict[str, Tensor]:
        """W_in (d_model, d_mlp), b_in, W_out (d_mlp, d_model), b_out; unused neurons are zero."""
        n = len(self.reads)
        return {
            "W_in": torch.cat([dense(self.reads, d_model).T, torch.zeros(d_model, d_mlp - n, dtype=torch.double)], 1),
            "b_in": torch.tensor([*self.biases, *[0.0] * (d_mlp - n)], dtype=torch.double),
            "W_out": torch.cat([dense(self.writes, d_model), torch.zeros(d_mlp - n, d_model, dtype=torch.double)]),
            "b_out": dense([self.offset], d_model)[0],
        }


def dense(forms: Iterable[Form], width: int) -> Tensor:
    """Affine forms as the rows of a float64 matrix."""
    forms = list(forms)
    matrix = torch.zeros(len(forms), width, dtype=torch.double)
    for row, form in enumerate(forms):
        for dimension, weight in form.items():
            matrix[row, dimension] += weight
    return matrix


class Arc:
    """Gates that separate positions by the slowest pair of the position code, (cos ωt, sin ωt).

    All positions together cover less than a full turn of the circle. So a line through the point between t − 1 and t
    and through the middle of the unused arc separates position t and all later positions from the earlier ones.
    """

    def __init__(self, code: range, n_positions: int, speed: float):
        self.cosine, self.sine = code[len(code) // 2 - 1], code[-1]
        self.n_positions, self.speed = n_positions, speed
        angles = torch.arange(n_positions, dtype=torch.double) * speed
        self.points = torch.stack([angles.cos(), angles.sin()], 1)

    @property
    def room(self) -> float:
        """The angle in radians between the last position and the first."""
        return 2 * math.pi - (self.n_positions - 1) * self.speed

    def from_on(self, t: int, least: float) -> Gate:
        """A gate of at least `least` from position t on, and at most −`least` before."""
        here, gap = (t - 0.5) * self.speed, (self.n_positions - 1) * self.speed + self.room / 2
        middle = (here + gap) / 2  # the line's normal points to the middle of the arc beyond it
        normal = torch.tensor([math.cos(middle), math.sin(middle)], dtype=torch.double)
        bound = math.cos((gap - here) / 2)
        values = self.points @ normal - bound
        side = torch.arange(self.n_positions) >= t
        assert bool(((values > 0) == side).all()), "the cut must part the positions"
        scale = least / float(values.abs().min())
        return Gate({self.cosine: scale * float(normal[0]), self.sine: scale * float(normal[1])}, -scale * bound)

    def chosen(self, wanted: Sequence[bool | None]) -> Gates:
        """Weighted gates that sum to 1 where `wanted` is true, to 0 where it is false; None repeats the last value."""
        gates: list[tuple[float, Gate]] = []
        state = False
        for t, want in enumerate(wanted):
            if want is None or want == state:
                continue
            state = want
            gates.append((1.0 if want else -1.0, Gate({}, OPEN) if t == 0 else self.from_on(t, OPEN)))
        return gates
