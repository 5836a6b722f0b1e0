# SPDX-License-Identifier: Apache-2.0
"""sluice.decode of models of experts, on the host twin of chains: FP8 codes, launches, bytes, files, refusals. test_decode.py compares
their logits and tokens with those of transformers, test_decode_router.py has the choice of experts."""
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

import sluice  # noqa: E402
from chain_on_host import HostMachine  # noqa: E402
from decode_cases import engine_of, logits_of_transformers, model_of, relative, sequences  # noqa: E402
from sluice.torch import _moe_ops  # noqa: E402
from sluice.torch.decode import decode  # noqa: E402
from sluice.torch.decode.architecture import architecture_of  # noqa: E402
from test_decode import as_codes, rounded_twin  # noqa: E402


class RoundedExperts(torch.nn.Module):
    """The experts of transformers, with the inputs of both products rounded as the recipe "row" does."""

    def __init__(self, experts):
        super().__init__()
        self.gate_up, self.down, self.rounded = experts.gate_up_proj, experts.down_proj, as_codes("row", None)

    def forward(self, hidden, ids, weights):
        out = torch.zeros_like(hidden)
        for expert, (gate_up, down) in enumerate(zip(self.gate_up, self.down)):
            token, place = torch.where(ids == expert)
            gate, up = (self.rounded(None, (hidden[token],))[0] @ gate_up.t()).chunk(2, -1)
            inner = self.rounded(None, (torch.nn.functional.silu(gate) * up,))[0]
            out.index_add_(0, token, inner @ down.t() * weights[token, place, None])
        return out


def round_inputs(twin):
    for layer in twin.model.layers:
        layer.mlp.experts = RoundedExperts(layer.mlp.experts)
        for module in (layer.self_attn.q_proj, layer.self_attn.k_proj, layer.self_attn.v_proj, layer.self_attn.o_proj):
            module.register_forward_pre_hook(as_codes("row", None))


@pytest.fixture(params=["slots", "sorted"])
def order(request, monkeypatch):
    """Whether the rows of experts are slots, as those of so small weights are, or sorted."""
    if request.param == "sorted":
        monkeypatch.setattr(_moe_ops, "_REPEATED_BYTES", -1)
    return request.param


@pytest.mark.parametrize("rows", [1, 16])
def test_logits_of_fp8_experts_are_those_of_their_codes(rows, order):
    model = model_of("qwen3moe", hidden_size=128)
    prompts, tokens = sequences(min(rows, 3))
    engine = engine_of(model, "row")
    got = engine.forced_logits(prompts, tokens, bucket=rows)
    twin = rounded_twin(model, engine)
    assert relative(got, logits_of_transformers(twin, prompts, tokens)) > 0.05
    round_inputs(twin)
    wanted = logits_of_transformers(twin, prompts, tokens)
    errors = (got.float() - wanted).norm(dim=-1) / wanted.norm(dim=-1)
    assert float(errors.median()) < 5e-6


@pytest.mark.parametrize("rows,dtype,bound", [(1, "float32", 5e-6), (16, "float32", 5e-6), (1, "bfloat16", 0.04), (16, "bfloat16", 0.04)])
def test_logits_of_int4_experts_are_those_of_their_codes(rows, dtype, bound, order):
    model = model_of("qwen3moe", hidden_size=128).to(getattr(torch, dtype))
    prompts, tokens = sequences(min(rows, 3))
    engine = engine_of(model, "int4", getattr(torch, dtype))
    got = engine.forced_logits(prompts, tokens, bucket=rows)
    wanted = logits_of_transformers(rounded_twin(model, engine), prompts, tokens)
    errors = (got.float() - wanted).norm(dim=-1) / wanted.norm(dim=-1)
    assert float(errors.median()) < bound


# ---- launches
@pytest.mark.parametrize("recipe", ["row", None])
def test_a_layer_of_experts_is_these_launches(recipe, order):
    engine = engine_of(model_of("qwen3moe"), recipe, torch.bfloat16)
    engine.generate([[5, 6]], max_new_tokens=2, bucket=4)
    before = ["norm1", "qkv"]
    to_choose = (["quantize"] if recipe == "row" else []) + ["o", "norm2", "router"]
    front = ["route", "gather"] if order == "sorted" else ["quantize_x"] if recipe == "row" else []
    behind = front + ["gate_up"] + (["quantize"] if recipe == "row" else []) + ["down", "combine"]
    chain = engine._machine.chains[0]
    assert chain.names() == [before, to_choose, behind + before, to_choose, behind + before, to_choose, behind + ["final_norm", "head"]]
    assert [gap.name for gap in chain.steps.gaps] == ["attention", "choose"] * 3


def test_bytes_of_experts_are_those_that_tokens_reach():
    model = engine_of(model_of("qwen3moe"), "row", torch.bfloat16).model
    of_experts = sum(layer.gate_up.nbytes + layer.down.nbytes for layer in model.layers)
    rest = model.weight_bytes() - of_experts
    assert model.weight_bytes(1) == pytest.approx(rest + of_experts * 3 / 8, abs=2)
    assert model.weight_bytes(2) == pytest.approx(rest + of_experts * (1 - (5 / 8) ** 2), abs=2)


def test_rows_that_rest_choose_no_expert(monkeypatch):
    monkeypatch.setattr(_moe_ops, "_REPEATED_BYTES", -1)  # sorted, so that a table says how many rows there are
    engine = engine_of(model_of("qwen3moe"))
    engine.generate([[5, 6]], max_new_tokens=3, bucket=4)
    ids, ends = (getattr(engine._buckets[4].buffers, name) for name in ("ids", "tables"))
    assert (ids[1:] == -1).all() and int(ends[0][-1]) == int((ids >= 0).sum()) <= 3


# ---- files and refusals
@pytest.mark.parametrize("recipe", ["row", "int4", None])
@pytest.mark.parametrize("kind", ["qwen3moe-mixed", "mixtral"])
def test_a_saved_engine_of_experts_comes_back_with_the_same_bits(tmp_path, kind, recipe):
    engine = engine_of(model_of(kind).bfloat16(), recipe, torch.bfloat16)
    prompts, tokens = sequences()
    wanted = engine.forced_logits(prompts, tokens)
    engine.save(tmp_path)
    assert torch.equal(decode(tmp_path, _machine=HostMachine()).forced_logits(prompts, tokens), wanted)


def test_static_scales_of_experts_are_refused():
    with pytest.raises(sluice.InvalidArgument, match="recipe = 'tensor', and the model has experts .qwen3_moe.: .* 'row', 'int4' and None"):
        engine_of(model_of("qwen3moe"), "tensor")


def test_experts_that_lack_or_are_of_another_shape_are_named():
    model = model_of("qwen3moe")
    del model.model.layers[1].mlp.experts.down_proj
    with pytest.raises(sluice.InvalidArgument, match="no tensor model.layers.1.mlp.experts.down_proj"):
        engine_of(model)
    model = model_of("qwen3moe")
    model.model.layers[2].mlp.experts.gate_up_proj.data = model.model.layers[2].mlp.experts.gate_up_proj.data[:7]
    with pytest.raises(sluice.InvalidArgument, match="gate_up_proj has shape .7, 64, 64. and must have .8, 64, 64."):
        engine_of(model)
    config = {**model_of("qwen3moe").config.to_dict(), "num_experts_per_tok": 9}
    with pytest.raises(sluice.InvalidArgument, match="num_experts_per_tok = 9: it must be at most"):
        architecture_of(config)
