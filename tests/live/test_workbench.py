"""The workbench, against torch hooks and formulas that are written here, and against models whose numbers are known."""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F
from families import FAMILIES, Plain, V, data, of_family, pairs
from torch import nn

import hopscope
from hopscope.circuits.discovery import Discovery
from hopscope.core.settings import BadInput
from hopscope.live import workbench
from hopscope.models.transformer import Architecture, Transformer
from hopscope.tasks.induction import Induction

D, H = 16, 2


class Block(nn.Module):
    """Pre-norm, as nanoGPT has it."""

    def __init__(self):
        super().__init__()
        self.ln1, self.ln2 = nn.LayerNorm(D), nn.LayerNorm(D)
        self.qkv, self.proj = nn.Linear(D, 3 * D), nn.Linear(D, D)
        self.mlp = nn.Sequential(nn.Linear(D, 4 * D), nn.GELU(), nn.Linear(4 * D, D))

    def heads(self, q, k, v):
        """What heads say, of what each of queries, keys and values reads (head, row, position, d_model)."""
        parts = [F.linear(self.ln1(x), *self.of(i)) for i, x in enumerate((q, k, v))]  # head row position D
        q, k, v = (torch.stack([x[h, ..., h * D // H :][..., : D // H] for h in range(H)], 1) for x in parts)
        return F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2)

    def of(self, i):
        return self.qkv.weight[i * D : (i + 1) * D], self.qkv.bias[i * D : (i + 1) * D]

    def forward(self, x):
        x = x + self.proj(self.heads(*[x[None].expand(H, *x.shape)] * 3))
        return x + self.mlp(self.ln2(x))


class Small(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(1)
        self.embed, self.place = nn.Embedding(V, D), nn.Embedding(9, D)
        self.blocks = nn.ModuleList(Block() for _ in range(2))
        self.ln, self.head = nn.LayerNorm(D), nn.Linear(D, V)
        with torch.no_grad():
            for name, weight in self.named_parameters():
                weight.copy_(weight + 0.3 * torch.randn_like(weight)) if "ln" in name else weight.mul_(2)

    def forward(self, tokens):
        x = self.embed(tokens) + self.place.weight[: tokens.shape[1]]
        for block in self.blocks:
            x = block(x)
        return self.head(self.ln(x))


def asked(n=24):
    """Clean rows, corrupt ones, right answers and wrong ones."""
    (clean, right), (corrupt, wrong) = data(n, 0), data(n, 1)
    return clean, corrupt, right, (wrong + (wrong == right)) % V


def gap(outputs, right, wrong):
    rows = torch.arange(len(right))
    return float((outputs[rows, -1, right] - outputs[rows, -1, wrong]).mean())


def held(found, name, column="node", value="mean"):
    [number] = found.table[found.table[column] == name][value]
    return number


class Hooks:
    """Forward hooks of torch, off again at the end."""

    def __init__(self, **hooks):
        self.handles = list(hooks.values())

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for handle in self.handles:
            handle.remove()


# The stream ------------------------------------------------------------------------------------------------------


def test_the_stream_is_what_hooks_on_modules_see():
    model, (inputs, _) = Small(), data(8)
    seen = {}
    see = lambda name: lambda part, given, out: seen.__setitem__(name, (given[0], out))  # noqa: E731
    parts = {f"{i}": block for i, block in enumerate(model.blocks)}
    parts |= {f"{i}.{n}": getattr(b, n) for i, b in enumerate(model.blocks) for n in ("proj", "mlp", "ln2")}
    with Hooks(**{name: part.register_forward_hook(see(name)) for name, part in parts.items()}), torch.no_grad():
        model(inputs)
    with torch.no_grad():
        logits, cache = hopscope.wrap(model, inputs)(inputs, cache=True)
    assert torch.equal(logits, model(inputs)) or torch.allclose(logits, model(inputs), atol=1e-5)
    for i in range(2):
        known = {"resid_pre": seen[f"{i}"][0], "resid_post": seen[f"{i}"][1], "resid_mid": seen[f"{i}.ln2"][0]}
        known |= {"attn_out": seen[f"{i}.proj"][1], "mlp_out": seen[f"{i}.mlp"][1]}
        assert all(torch.allclose(cache[name, i], value, atol=1e-5) for name, value in known.items())


@pytest.mark.parametrize("family", FAMILIES)
def test_streams_of_transformers_are_those_that_the_library_tells(family):
    """And with the norm's scale held, what parts add makes the difference of logits."""
    pytest.importorskip("transformers")
    changes = {"final_logit_softcapping": None} if family == "Gemma 2" else {}
    model, (clean, _, right, wrong) = of_family(family, **changes), asked(8)
    wrapped = hopscope.wrap(model, clean)
    with torch.no_grad():
        known = model(clean, output_hidden_states=True)
        _, cache = wrapped(clean, cache=True)
    for layer in range(2):
        assert torch.allclose(cache["resid_pre", layer], known.hidden_states[layer], atol=1e-5)
        with torch.no_grad():  # a row alone, whose positions have the shape of a stream
            one = wrapped(clean[:1], cache=[f"blocks.{layer}.hook_resid_pre"])[1]["resid_pre", layer]
        assert torch.allclose(one, known.hidden_states[layer][:1], atol=1e-5)
    found = workbench.attribution(wrapped, clean, right, wrong)
    assert float(found.table["mean"].sum()) == pytest.approx(gap(known.logits, right, wrong), abs=1e-5)


def test_what_is_given_as_the_stream_goes_on_as_it_would_in_the_module():
    model, (clean, corrupt, *_) = Small(), asked(8)
    with torch.no_grad():
        wrapped = hopscope.wrap(model, clean)
        for name in ("blocks.0.hook_resid_pre", "blocks.1.hook_resid_pre", "blocks.1.hook_resid_post"):
            other = wrapped(corrupt, cache=[name])[1][name]
            assert torch.allclose(wrapped(clean, replace={name: other}), model(corrupt), atol=1e-5)
            assert torch.allclose(wrapped(clean[:1], replace={name: other[:1]}), model(corrupt[:1]), atol=1e-5)


class PostNorm(Small):
    def forward(self, tokens):
        x = self.embed(tokens)
        for block in self.blocks:
            x = block.ln1(x + block.proj(block.heads(*[x[None].expand(H, *x.shape)] * 3)))
        return self.head(x)


def test_a_stream_that_is_normed_after_each_sum_is_none():
    clean, _, right, wrong = asked(8)
    with pytest.raises(BadInput, match=r"residual streams of a PostNorm are not accessible.*adds to"):
        workbench.attribution(PostNorm(), clean, right, wrong)
    assert len(workbench.nodes(PostNorm(), clean, data(8, 1)[0], (right, wrong)).table) == 4  # heads can be


# Measures --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("restore", [True, False])
def test_nodes_are_what_patching_by_hooks_gives(restore):
    model, (clean, corrupt, right, wrong) = Small(), asked()
    found = workbench.nodes(model, clean, corrupt, (right, wrong), restore=restore)
    base, source = (corrupt, clean) if restore else (clean, corrupt)
    for layer, block in enumerate(model.blocks):
        said = {}
        keep = lambda part, given, said=said: said.__setitem__("z", given[0])  # noqa: E731
        add = lambda part, given, out, said=said: said.__setitem__("m", out)  # noqa: E731
        hooks = {"a": block.proj.register_forward_pre_hook(keep), "b": block.mlp.register_forward_hook(add)}
        with Hooks(**hooks), torch.no_grad():
            model(source)

        def patch(part, given, head, said=said):
            z = given[0].clone()
            z[..., head * D // H : (head + 1) * D // H] = said["z"][..., head * D // H : (head + 1) * D // H]
            return (z,)

        for head in range(H):
            hook = block.proj.register_forward_pre_hook(lambda part, given, h=head, p=patch: p(part, given, h))
            with Hooks(a=hook), torch.no_grad():
                assert held(found, f"a{layer}.h{head}") == pytest.approx(gap(model(base), right, wrong), abs=1e-4)
        with Hooks(a=block.mlp.register_forward_hook(lambda part, given, out, s=said: s["m"])), torch.no_grad():
            assert held(found, f"m{layer}") == pytest.approx(gap(model(base), right, wrong), abs=1e-4)


def path_patched(model, clean, corrupt, edge):
    """The model written once more, in which every reader sums up what it reads by itself; one edge is corrupt."""
    source, target = edge.split("->")

    def run(tokens, other=None):
        wrote = {"input": model.embed(tokens) + model.place.weight}

        def reads(reader):
            given = {**wrote, **({source: other[source]} if other and reader == target else {})}
            return sum(given.values())

        for i, block in enumerate(model.blocks):
            read = [torch.stack([reads(f"a{i}.h{h}<{part}>") for h in range(H)]) for part in "qkv"]
            z, weight = block.heads(*read).unflatten(-1, (H, -1)), block.proj.weight.unflatten(1, (H, -1))
            said = {f"a{i}.h{h}": z[:, :, h] @ weight[:, h].T for h in range(H)}
            wrote |= {**said, f"bias {i}": block.proj.bias.expand_as(said[f"a{i}.h0"])}
            wrote[f"m{i}"] = block.mlp(block.ln2(reads(f"m{i}")))
        return model.head(model.ln(reads("logits"))), wrote

    with torch.no_grad():
        return run(clean, run(corrupt)[1])[0]


def test_edges_are_what_path_patching_by_hand_gives():
    model, (clean, corrupt, right, wrong) = Small(), asked()
    found = workbench.edges(model, clean, corrupt, (right, wrong))
    assert len(found.table) == 6 + 3 + 6 * 4 + 6 + 7
    for edge in ["input->a0.h1<k>", "a0.h0->m0", "a0.h1->a1.h0<q>", "m0->a1.h1<v>", "a1.h0->m1", "m1->logits"]:
        known = gap(path_patched(model, clean, corrupt, edge), right, wrong)
        assert held(found, edge, "edge") == pytest.approx(known, abs=1e-4)


def test_direct_attribution_is_the_formula():
    model, (clean, _, right, wrong) = Small(), asked()
    found = workbench.attribution(model, clean, right, wrong)
    seen = {}
    keep = lambda part, given: seen.__setitem__(part, given[0])  # noqa: E731
    parts = [model.ln, *(block.proj for block in model.blocks)]
    with Hooks(**{str(i): one.register_forward_pre_hook(keep) for i, one in enumerate(parts)}), torch.no_grad():
        outputs = model(clean)
    along = (model.head.weight[right] - model.head.weight[wrong]) * model.ln.weight
    deviation = seen[model.ln][:, -1].std(-1, correction=0, keepdim=True)
    for layer, block in enumerate(model.blocks):
        for head in range(H):
            some = slice(head * D // H, (head + 1) * D // H)
            wrote = seen[block.proj][:, -1, some] @ block.proj.weight[:, some].T
            known = ((wrote - wrote.mean(-1, keepdim=True)) / deviation * along).sum(-1).detach()
            assert held(found, f"a{layer}.h{head}") == pytest.approx(float(known.mean()), abs=1e-4)
    assert float(found.table["mean"].sum()) == pytest.approx(gap(outputs, right, wrong), abs=1e-4)
    of_mean = float(workbench.attribution(model, clean, right).table["mean"].sum())
    whole = outputs[:, -1].gather(1, right[:, None])[:, 0] - outputs[:, -1].mean(-1)
    assert of_mean == pytest.approx(float(whole.mean()), abs=1e-4)


def test_capped_logits_are_refused():
    class Capped(Small):
        def forward(self, tokens):
            return 3 * torch.tanh(super().forward(tokens) / 3)

    clean, _, right, wrong = asked()
    with pytest.raises(BadInput, match="not linear in the last stream"):
        workbench.attribution(Capped(), clean, right, wrong)


def test_the_lens_reads_hidden_states_by_the_models_own_head():
    model, (clean, _, right, _) = Small(), asked()
    found = workbench.lens(model, clean, right)
    streams = []
    keep = lambda part, given: streams.append(given[0])  # noqa: E731
    with Hooks(**{str(i): one.register_forward_pre_hook(keep) for i, one in enumerate(model.blocks)}), torch.no_grad():
        outputs = [model(clean)]
    with torch.no_grad():
        outputs = [*(model.head(model.ln(stream)) for stream in streams), *outputs]
    for stream, one in enumerate(outputs):
        for place in (3, 8):
            row = found.table[(found.table["stream"] == stream) & (found.table["position"] == place)].iloc[0]
            right_there = one[:, place].softmax(-1).gather(1, right[:, None]).mean()
            assert row["score"] == pytest.approx(float(right_there), abs=1e-5)
            assert row["likeliest"] == int(one[0, place].argmax())


def test_composition_of_matrices_that_are_known():
    """One head moves 12 tokens, one to one, to where the keys of the next read: 1 / √12; nothing else composes."""
    found = workbench.composition(Plain(), data(8)[0])
    scores = {row.part: row.score for row in found.table.itertuples()}
    assert scores["k"] == pytest.approx(1 / math.sqrt(12), abs=1e-5) and scores["q"] == scores["v"] == 0
    copies = workbench.qk_ov(Plain(), data(8)[0], n_tokens=V).table["copying"].tolist()
    assert copies == pytest.approx([0.0, 1.0], abs=1e-5)


def test_composition_folds_the_norm_into_the_weights():
    model, layer, h = Small(), 1, 1
    found = workbench.composition(model, data(8)[0])
    centre = torch.eye(D) - 1 / D
    first, second = model.blocks
    with torch.no_grad():
        folded = lambda block, i: centre @ (block.of(i)[0] * block.ln1.weight).T  # noqa: E731
        read = lambda block, i, head: folded(block, i)[:, head * D // H : (head + 1) * D // H]  # noqa: E731
        write = first.proj.weight[:, : D // H].T
        ov, qk = read(first, 2, 0) @ write, read(second, 0, h) @ read(second, 1, h).T
        known = (ov @ qk).norm() / ov.norm() / qk.norm()
    rows = found.table[(found.table["earlier"] == "L0H0") & (found.table["later"] == f"L{layer}H{h}")]
    assert held(rows_of(rows), "q", "part", "score") == pytest.approx(float(known), abs=1e-4)


def rows_of(table):
    return workbench.Shown("some", "", table, lambda: None)


def test_where_queries_are_normed_only_values_are_told():
    pytest.importorskip("transformers")
    found = workbench.composition(of_family("Qwen 3"), data(8)[0])
    known = found.table.groupby("part")["score"].count()
    assert known["q"] == known["k"] == 0 < known["v"] and "NaN" in str(found)


@pytest.mark.parametrize("null", ["zero", "mean", "resample"])
def test_ablations_are_those_of_hooks(null):
    model, (clean, _, right, wrong) = Small(), asked()
    found = workbench.ablation(model, clean, ["L0H1", "L1", "m0"], (right, wrong), null=null)
    stands = {"zero": torch.zeros_like, "mean": lambda x: x.mean(0).expand_as(x), "resample": lambda x: x.roll(1, 0)}

    def silence(part, given):
        z = given[0].clone()
        z[..., D // H :] = stands[null](z[..., D // H :])
        return (z,)

    hooks = {
        "L0H1": lambda: model.blocks[0].proj.register_forward_pre_hook(silence),
        "L1": lambda: model.blocks[1].proj.register_forward_pre_hook(lambda part, given: (stands[null](given[0]),)),
        "m0": lambda: model.blocks[0].mlp.register_forward_hook(lambda part, given, out: stands[null](out)),
    }
    for name, make in hooks.items():
        with Hooks(a=make()), torch.no_grad():
            assert held(found, name, "ablated") == pytest.approx(gap(model(clean), right, wrong), abs=1e-4)
    with Hooks(**{name: make() for name, make in hooks.items()}), torch.no_grad():
        assert held(found, "all", "ablated") == pytest.approx(gap(model(clean), right, wrong), abs=1e-4)


def test_a_path_that_is_ablated_leaves_its_attention_to_the_rest():
    model, (clean, _, right, wrong) = Plain("bmm"), asked()
    found = workbench.ablation(model, clean, ["L1H0 query->answer"], (right, wrong), roles=pairs)
    x = torch.zeros(*clean.shape, 45)
    x[..., :V], x[..., V : V + 9] = F.one_hot(clean, V).float(), torch.eye(9)
    with torch.no_grad():
        x = x + model.first(x)
        z = torch.zeros(len(clean), V)
        for row, tokens in enumerate(clean.tolist()):  # all that the head sees but the answer, evenly
            rest = [i for i in range(9) if i != tokens.index(tokens[-1]) + 1]
            z[row] = F.one_hot(clean[row, rest], V).float().mean(0)
    [rows] = [torch.arange(len(clean))]
    known = 12 * (z[rows, right] - z[rows, wrong]).mean()
    assert held(found, "L1H0 query->answer", "ablated") == pytest.approx(float(known), abs=1e-3)
    named = workbench.ablation(model, clean, ["L1H0 query->value[1]"], (right, wrong))  # as `attention` suggests
    assert held(named, "L1H0 query->value[1]", "ablated") == pytest.approx(float(known), abs=1e-3)


def test_attention_by_roles_that_tokens_suggest():
    model, (clean, _) = Plain(), data(32)
    found = workbench.attention(model, clean)
    rows = {(r.layer, r.query, r.key, r.chain): r.attention for r in found.table.itertuples()}
    with torch.no_grad():
        pattern = hopscope.wrap(model, clean)(clean, cache=True)[1]["pattern", 1][:, 0]
    answer = torch.tensor([pairs(row)["answer"] for row in clean.tolist()])
    assert rows[1, "query", "value[1]", "same"] == pytest.approx(float(pattern[range(32), -1, answer].mean()), abs=1e-6)
    assert rows[0, "value[1]", "key[1]", "same"] > 0.99 and "suggested by tokens" in str(found)
    relations = workbench.attention(model, clean[:, :-1])  # no token stands twice
    assert {"query", "each"} == {*relations.table["query"]} and "relations" in str(relations)


def test_a_chain_is_suggested_as_far_as_all_rows_have_it():
    rows = torch.tensor([[3, 4, 1, 2, 2, 3, 0, 5, 1], [2, 4, 0, 1, 1, 2, 9, 8, 0]])  # 1 → 2 → 3 → 4; 0 → 1 → 2 → 4
    named = workbench.suggested(rows)(rows[0].tolist())
    assert named == {"query": 8, "key[1]": 2, "value[1]": 3, "key[2]": 4, "value[2]": 5, "key[3]": 0, "value[3]": 1}
    with pytest.raises(BadInput, match="no roles are suggested"):
        workbench.suggested(torch.tensor([[1, 2, 3]] * 4))


def test_suggested_roles_serve_the_search():
    inputs, targets = data(512)
    few = Discovery(discovery=32, selection=48, report=64)
    found = hopscope.find_circuit(Plain(), inputs, targets, roles=workbench.suggested(inputs), settings=few)
    assert {str(one.path) for one in found.circuit.paths} == {"L0H0 value[1]->key[1]", "L1H0 query->value[1]"}


# Models of the laboratory ----------------------------------------------------------------------------------------


def every(model, clean, corrupt, right, wrong):
    """All measures of a model of 12 tokens."""
    return [
        workbench.attention(model, clean),
        workbench.nodes(model, clean, corrupt, (right, wrong)),
        workbench.edges(model, clean, corrupt, (right, wrong)),
        workbench.attribution(model, clean, right, wrong),
        workbench.lens(model, clean, right),
        workbench.composition(model, clean),
        workbench.qk_ov(model, clean, n_tokens=12),
        workbench.ablation(model, clean, ["L0H0", "L1"], (right, wrong)),
    ]


@pytest.mark.heavy
def test_every_measure_has_files_a_picture_and_a_page(tmp_path):
    for found in every(Plain(), *asked(8)):
        files = found.save(tmp_path / "shown")
        assert [file.name for file in files] == [f"{found.name}.{kind}" for kind in ("csv", "txt", "svg", "png")]
        assert all(file.stat().st_size for file in files) and "<svg" in found._repr_html_() and str(found)


class Foreign(nn.Module):
    """A model of the laboratory as a stranger would find it."""

    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, tokens):
        return self.inner(tokens)


def test_models_of_the_laboratory_are_measured_by_their_own_names_and_as_any_module_alike():
    task = Induction(length=8, d_vocab=12)
    shape = Architecture(n_layers=2, n_heads=2, d_model=16, mlp=True, layer_norm=True, init="fan_in")
    own = Transformer.for_task(shape, task, torch.Generator().manual_seed(0))
    clean, corrupt = (task.sample(16, seed).inputs for seed in (0, 1))
    right, wrong = torch.arange(16) % 12, (torch.arange(16) + 5) % 12
    for one, two in zip(*(every(m, clean, corrupt, right, wrong) for m in (own, Foreign(own))), strict=True):
        assert one.table.columns.tolist() == two.table.columns.tolist()
        for column in one.table.select_dtypes("number"):
            assert one.table[column].to_numpy() == pytest.approx(two.table[column].to_numpy(), abs=2e-4, nan_ok=True)


ERRORS = {
    "shapes": (lambda c, r: workbench.nodes(Plain(), c, c[:-1], (r, r)), "must be tensors of the same shape"),
    "nothing differs": (lambda c, r: workbench.nodes(Plain(), c, c, (r, (r + 1) % V)), "nothing to trace"),
    "metric": (lambda c, r: workbench.nodes(Plain(), c, c, lambda y: y.mean()), r"a finite number for each of the 8"),
    "answers": (lambda c, r: workbench.nodes(Plain(), c, c, (r + V, r)), "must be numbers of the 12 outputs"),
    "lists": (lambda c, r: workbench.attention(Plain(), c.tolist()), "inputs must be a tensor; got a list"),
    "no metric": (lambda c, r: workbench.nodes(Plain(), c, c, None), "the metric fails on outputs"),
    "one answer": (lambda c, r: workbench.attribution(Plain(), c, 3), "answers must be an output's number for each"),
    "one right": (lambda c, r: workbench.lens(Plain(), c, 3), "answers must be an output's number for each"),
    "no heads": (
        lambda c, r: workbench.edges(Plain("einsum"), c, c, (r, r)),
        r"queries, keys and values of single heads .*must be of two tensors.*as those of matmul",
    ),
    "null": (lambda c, r: workbench.ablation(Plain(), c, ["L0"], (r, r), null="noise"), "null must be one of zero"),
    "no part": (lambda c, r: workbench.ablation(Plain(), c, ["L7"], (r, r)), "ablation 'L7': the last layer is 1"),
    "no path": (lambda c, r: workbench.ablation(Plain(), c, ["L0H0 a->b"], (r, r)), "there is no role 'a'"),
    "features": (lambda c, r: workbench.suggested(c.float()), "roles are suggested for tokens"),
}


@pytest.mark.parametrize("case", ERRORS)
def test_what_cannot_be_measured_is_told_in_one_sentence(case):
    make, words = ERRORS[case]
    with pytest.raises(BadInput, match=words):
        make(*data(8))
