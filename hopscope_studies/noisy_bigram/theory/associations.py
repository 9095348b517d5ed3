"""One gradient step on the noisy bigram, in closed form (after Chen, Bruna and Bietti, 2024, arXiv:2406.03068; ours).

The simplified model has one linear feed-forward layer and one linear attention head with uniform attention. Embeddings
are orthonormal, so a weight matrix is a table. A sequence asks for the token after the trigger q. Its context has T
tokens: the sequence's correct token ȳ, and others drawn uniformly from N. The next token y is noise τ with probability
α, else ȳ. With M = N + 1 outputs the logits are

    W_F e(q) + W_V x̄,    x̄ = the context's mean embedding.

From weights 0, a step of size η on the cross-entropy makes W_F = η g and W_V = η G, where (averages over sequences)

    g[k] = E[1{y = k} − 1/M]             G[k, j] = E[(1{y = k} − 1/M) x̄[j]].

`OneStep` gives both for infinitely many sequences, their effect on the logits, the number of sequences after which the
gradient has more signal than noise, and where a second step turns attention. We had no access to the statement of the
theorem itself; docs/fidelity.md says how we read the talk's sentence.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class OneStep:
    """The simplified model's first step.

    Attributes:
        n_tokens: N, ordinary tokens; noise is one more.
        length: T, tokens of the context.
        alpha: how often noise follows, 0–1.
    """

    n_tokens: int
    length: int
    alpha: float

    @property
    def feed_forward(self) -> tuple[float, float]:
        """Entries of the feed-forward gradient g: g[τ], and g[k], equal for every other token k."""
        even = 1 / (self.n_tokens + 1)
        return self.alpha - even, (1 - self.alpha) / self.n_tokens - even

    @property
    def attention(self) -> tuple[float, float, float]:
        """Entries of attention's gradient G: G[τ, j], equal for all j; G[k, j], equal for all k ≠ j; and G[k, k]."""
        n, rest = self.n_tokens, 1 - self.alpha
        even = 1 / (n + 1) / n
        apart = rest * (self.length - 1) / (self.length * n**2) - even
        return self.alpha / n - even, apart, apart + rest / (n * self.length)

    @property
    def margins(self) -> tuple[float, float]:
        """By how much each layer raises τ's logit above that of a token that is not in the context, per unit of η.

        Up to a term without α, the feed-forward layer's margin is N times that of attention, as if its learning rate
        were N times as high.
        """
        tau, other = self.feed_forward
        tau_attended, other_attended, _ = self.attention
        return tau - other, tau_attended - other_attended

    @property
    def signals(self) -> tuple[float, float]:
        """‖g‖² and ‖G‖²: the sum of squares of each layer's gradient over infinitely many sequences."""
        n = self.n_tokens
        tau, other = self.feed_forward
        tau_attended, apart, own = self.attention
        return tau**2 + n * other**2, n * tau_attended**2 + n * (n - 1) * apart**2 + n * own**2

    @property
    def powers(self) -> tuple[float, float]:
        """The mean sum of squares of one sequence's gradient: signal and noise together."""
        error = 1 - 1 / (self.n_tokens + 1)
        mean_square = 1 / self.length + (self.length - 1) / (self.length * self.n_tokens)  # of x̄
        return error, error * mean_square

    @property
    def samples(self) -> tuple[float, float]:
        """The number of sequences at which noise equals signal, for the feed-forward layer's gradient and attention's.

        The noise of m sequences is (power − signal) / m. For large N the first tends to (1 − α²) / α², whatever N is;
        the second grows as (1 + N / T) / α²: with N, unless contexts grow as well.
        """
        one, other = ((power - signal) / signal for power, signal in zip(self.powers, self.signals, strict=True))
        return one, other

    @property
    def turn(self) -> tuple[float, float]:
        """The change of attention's scores in a second step, at ȳ's place and at any other, per unit of η.

        This is the descent direction at W_V = η G to first order in η. The changes add up to 0, so all other places
        change equally.
        """
        n, t = self.n_tokens, self.length
        answer = (1 - self.alpha) ** 2 * (t - 1) * (1 - 1 / n) / (n * t**3)
        return answer, -answer / (t - 1)
