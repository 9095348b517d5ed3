"""Small models of transformers, by configuration, and one attention-only module of plain PyTorch written by hand."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import nn

V, N, SHARP = 12, 9, 30.0
WIDTH = V + N + V + V  # token, place, the token before, the answer
TOKEN, PLACE, BEFORE, ANSWER = (slice(a, b) for a, b in ((0, V), (V, V + N), (V + N, 2 * V + N), (2 * V + N, WIDTH)))


def data(rows: int = 1024, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    """Different tokens in a row, the first of them never asked for; then one of them again. Asked: what followed it."""
    random = torch.Generator().manual_seed(seed)
    tokens = torch.rand(rows, V, generator=random).argsort(-1)[:, : N - 1]
    place = torch.randint(1, N - 2, (rows, 1), generator=random)
    return torch.cat([tokens, tokens.gather(1, place)], 1), tokens.gather(1, place + 1)[:, 0]


def pairs(row: list[int]) -> dict[str, int]:
    return {"query": -1, "asked": row.index(row[-1]), "answer": row.index(row[-1]) + 1}


class Attention(nn.Module):
    """One head, of matrices that are written by hand; `how` says by which function of PyTorch it attends."""

    def __init__(self, how: str):
        super().__init__()
        self.Q, self.K, self.V, self.O = (nn.Parameter(torch.zeros(WIDTH, WIDTH)) for _ in range(4))
        self.how, self.even = how, False

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = x @ self.Q, x @ self.K, x @ self.V
        past = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).tril()
        if self.even:  # the head idle, by its owner's hand
            z = (past / past.sum(-1, keepdim=True)).to(x.dtype) @ v
        elif self.how == "sdpa":
            z = F.scaled_dot_product_attention(q[:, None], k[:, None], v[:, None], is_causal=True)[:, 0]
        elif self.how == "sdpa mask":
            z = F.scaled_dot_product_attention(q[:, None], k[:, None], v[:, None], attn_mask=past)[:, 0]
        elif self.how == "bmm":
            scores = torch.bmm(q, k.transpose(1, 2)) / math.sqrt(WIDTH)
            z = torch.bmm(scores.masked_fill(~past, -math.inf).softmax(-1), v)
        elif self.how == "einsum":
            scores = torch.einsum("bqd,bkd->bqk", q, k) / math.sqrt(WIDTH)
            z = torch.einsum("bqk,bkd->bqd", torch.softmax(scores.masked_fill(~past, -math.inf), -1), v)
        else:  # by hand, which nobody can see
            scores = (q @ k.mT / math.sqrt(WIDTH)).masked_fill(~past, -math.inf)
            weights = (scores - scores.amax(-1, keepdim=True)).exp()
            z = weights / weights.sum(-1, keepdim=True) @ v
        return z @ self.O


class Plain(nn.Module):
    """Layer 0 copies every token one place on; layer 1 finds the place to which the query's own was copied."""

    def __init__(self, how: str = "sdpa"):
        super().__init__()
        self.first, self.second = Attention(how), Attention(how)
        scale = SHARP * math.sqrt(WIDTH)
        with torch.no_grad():
            self.first.Q[PLACE, :N] = scale * torch.eye(N).roll(-1, 1).tril(-1)
            self.first.K[PLACE, :N] = torch.eye(N)
            self.first.V[TOKEN, :V] = self.first.O[:V, BEFORE] = torch.eye(V)
            self.second.Q[TOKEN, :V] = scale * torch.eye(V)
            self.second.K[BEFORE, :V] = self.second.V[TOKEN, :V] = self.second.O[:V, ANSWER] = torch.eye(V)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = torch.zeros(*tokens.shape, WIDTH)
        x[..., TOKEN], x[..., PLACE] = F.one_hot(tokens, V).float(), torch.eye(N)[: tokens.shape[1]]
        x = x + self.first(x)
        x = x + self.second(x)
        return 12 * x[..., ANSWER]


SIZE = {"vocab_size": V, "hidden_size": 48, "intermediate_size": 96, "num_hidden_layers": 2, "num_attention_heads": 4}
WHOLE = {**SIZE, "max_position_embeddings": 32, "bos_token_id": None, "eos_token_id": None, "pad_token_id": None}
SHARED = {**WHOLE, "num_key_value_heads": 2}
OWN = {**SHARED, "head_dim": 12}
GPT2 = {"vocab_size": V, "n_embd": 48, "n_layer": 2, "n_head": 4, "n_positions": 32}
ENDS = {"bos_token_id": None, "eos_token_id": None}
#: By name: configuration, its class, the model's, and whether positions and keys are its own.
FAMILIES = {
    "Llama": ("LlamaConfig", "LlamaForCausalLM", SHARED),
    "Gemma 2": ("Gemma2Config", "Gemma2ForCausalLM", {**OWN, "sliding_window": 5}),
    "Gemma 3": ("Gemma3TextConfig", "Gemma3ForCausalLM", {**OWN, "sliding_window": 5}),
    "Qwen 3": ("Qwen3Config", "Qwen3ForCausalLM", OWN),
    "GPT-2": ("GPT2Config", "GPT2LMHeadModel", {**GPT2, **ENDS}),
    "GPT-NeoX": ("GPTNeoXConfig", "GPTNeoXForCausalLM", WHOLE),
    "Mistral": ("MistralConfig", "MistralForCausalLM", {**SHARED, "sliding_window": 5}),
    "OLMo 2": ("Olmo2Config", "Olmo2ForCausalLM", SHARED),
    "Granite": ("GraniteConfig", "GraniteForCausalLM", SHARED),
    "gpt-oss": ("GptOssConfig", "GptOssForCausalLM", {**OWN, "num_local_experts": 4, "num_experts_per_tok": 2}),
}


def of_family(name: str, **changes: object) -> nn.Module:
    """A model of transformers, its weights drawn from seed 0."""
    import transformers

    configuration, kind, settings = FAMILIES[name]
    torch.manual_seed(0)
    made: nn.Module = getattr(transformers, kind)(getattr(transformers, configuration)(**{**settings, **changes}))
    return made.eval()


class Layer(nn.Module):
    """A layer as nanoGPT has it (Karpathy, 2022)."""

    def __init__(self, width: int, heads: int):
        super().__init__()
        self.heads = heads
        self.before, self.between = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attend, self.project = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.think = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        parts = self.attend(self.before(x)).chunk(3, -1)
        q, k, v = (part.unflatten(-1, (self.heads, -1)).transpose(1, 2) for part in parts)
        z = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.project(z.transpose(1, 2).flatten(2))
        return x + self.think(self.between(x))


class Nano(nn.Module):
    """A nanoGPT of our own: learnt positions, two layers of four heads, the embedding's weights at the end."""

    def __init__(self, width: int = 48, heads: int = 4):
        super().__init__()
        torch.manual_seed(0)
        self.tokens, self.places = nn.Embedding(V, width), nn.Embedding(32, width)
        self.layers = nn.ModuleList(Layer(width, heads) for _ in range(2))
        self.end = nn.LayerNorm(width)
        for table in (self.tokens, self.places):
            nn.init.normal_(table.weight, std=0.1)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.tokens(tokens) + self.places.weight[: tokens.shape[1]]
        for layer in self.layers:
            x = layer(x)
        return self.end(x) @ self.tokens.weight.T


def again(rows: int, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Eight different tokens, the first of them never asked for, then four of them again: what followed each?"""
    random = torch.Generator().manual_seed(seed)
    tokens = torch.rand(rows, V, generator=random).argsort(-1)[:, : N - 1]
    places = 1 + torch.rand(rows, N - 3, generator=random).argsort(-1)[:, :4]
    return torch.cat([tokens, tokens.gather(1, places)], 1), tokens.gather(1, places + 1)


def trained(model: nn.Module, below: float = 0.01, most: int = 1500) -> nn.Module:
    """Trained on `again` until the loss of fresh batches is low on average."""
    optimizer = torch.optim.AdamW(model.parameters(), 3e-3, weight_decay=0.01)
    model.train()
    mean = 1.0
    for step in range(most):
        inputs, targets = again(64, step)
        outputs = model(inputs)
        loss = F.cross_entropy(getattr(outputs, "logits", outputs)[:, N - 1 :].flatten(0, 1), targets.flatten())
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        mean = 0.95 * mean + 0.05 * float(loss.detach())
        if mean < below:
            break
    return model.eval()
