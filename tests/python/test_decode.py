# SPDX-License-Identifier: Apache-2.0
"""sluice.decode without a GPU: tiny random models of transformers, read and run on the host twin of chains (chain_on_host.py), against
transformers' own logits and tokens. test_decode_reader.py has files and refusals, gpu_decode.py what only a GPU can show."""
import math
import types

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

import chain_on_host  # noqa: E402
import sluice  # noqa: E402
from decode_cases import KINDS, NEAR, engine_of, logits_of_transformers, model_of, relative, sequences  # noqa: E402
from sluice.torch.decode.progress import Progress  # noqa: E402
from sluice.torch.decode.sampling import Books, noise, row_keys  # noqa: E402
from sluice.weights import dequantize  # noqa: E402


# ---- the same as transformers
@pytest.mark.parametrize("kind", KINDS)
def test_logits_of_each_model_are_those_of_transformers(kind):
    model = model_of(kind)
    prompts, tokens = sequences()
    wanted = logits_of_transformers(model, prompts, tokens)
    got = engine_of(model).forced_logits(prompts, tokens)
    assert got.shape == wanted.shape and wanted.std() > 0.1
    assert relative(got, wanted) < NEAR.get(kind, 2e-5)


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "gemma"])
def test_greedy_tokens_are_those_of_transformers(kind):
    model = model_of(kind)
    ids = torch.randint(2, 97, (2, 6), generator=torch.Generator().manual_seed(3))
    wanted = model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=12, do_sample=False, eos_token_id=None)
    assert torch.equal(engine_of(model).generate(ids, max_new_tokens=12), wanted)


def matrix_of(operand):
    """Returns the weights that an operand's codes stand for."""
    if not hasattr(operand, "packed"):
        return operand.matrix()
    if isinstance(operand.packed, sluice.PackedExperts):
        return torch.stack([torch.as_tensor(dequantize(operand.packed.expert(i).quantized())) for i in range(len(operand.packed))])
    return torch.as_tensor(dequantize(operand.packed.quantized()))


def rounded_twin(model, engine):
    """Returns the model with the weights that the engine's codes stand for."""
    config = model.config
    twin = type(model)(config).eval().requires_grad_(False)
    twin.load_state_dict(model.state_dict())
    for layer, own in zip(twin.model.layers, engine.model.layers):
        whole = {}
        for name in ("qkv", "o", "gate_up", "down"):
            operand = getattr(own, name)
            whole[name] = matrix_of(operand).float()
        q, k = layer.self_attn.q_proj.weight.shape[0], layer.self_attn.k_proj.weight.shape[0]
        for linear, rows in zip((layer.self_attn.q_proj, layer.self_attn.k_proj, layer.self_attn.v_proj), whole["qkv"].split([q, k, k])):
            linear.weight.data = rows
        layer.self_attn.o_proj.weight.data = whole["o"]
        if own.router is not None:
            layer.mlp.experts.gate_up_proj.data, layer.mlp.experts.down_proj.data = whole["gate_up"], whole["down"]
            continue
        layer.mlp.down_proj.weight.data = whole["down"]
        layer.mlp.gate_proj.weight.data, layer.mlp.up_proj.weight.data = whole["gate_up"].chunk(2)
    return twin.float()


def as_codes(recipe, scale):
    """Returns a hook that rounds a linear layer's input as the recipe does."""
    def hook(_, inputs):
        x = inputs[0]
        if recipe == "row":
            amax = x.abs().amax(-1, keepdim=True).clamp(1e-4)
            return ((x * (448 / amax)).to(torch.float8_e4m3fn).float() * (amax / 448),)
        return ((x / scale).clamp(-448, 448).to(torch.float8_e4m3fn).float() * scale,)
    return hook


def round_inputs(twin, recipe, scales):
    for i, layer in enumerate(twin.model.layers):
        groups = ([layer.self_attn.q_proj, layer.self_attn.k_proj, layer.self_attn.v_proj], [layer.self_attn.o_proj],
                  [layer.mlp.gate_proj, layer.mlp.up_proj], [layer.mlp.down_proj])
        for place, group in enumerate(groups):
            for module in group:
                module.register_forward_pre_hook(as_codes(recipe, None if scales is None else scales[i, place]))


# The peer is transformers in fp32 with the weights that the codes stand for and, for e4m3, with every product's input rounded as the recipe
# says. In fp32 what is left is a code of e4m3 that the order of sums flips now and then, so the median over positions counts. In bf16 it is
# the rounding of activations.
@pytest.mark.parametrize("rows", [1, 3, 16])
@pytest.mark.parametrize("recipe,dtype,bound", [("row", "float32", 5e-6), ("tensor", "float32", 5e-6), ("int4", "float32", 5e-6),
                                                (None, "bfloat16", 0.025), ("int4", "bfloat16", 0.025)])
@pytest.mark.parametrize("kind", ["llama-biases", "qwen3"])
def test_logits_of_each_recipe_are_those_of_its_codes(kind, recipe, dtype, bound, rows):
    model = model_of(kind, hidden_size=128, intermediate_size=192).to(getattr(torch, dtype))
    prompts, tokens = sequences(min(rows, 3))
    engine = engine_of(model, recipe, getattr(torch, dtype))
    got = engine.forced_logits(prompts, tokens, bucket={1: 1, 3: 4, 16: 16}[rows])
    twin = rounded_twin(model, engine)
    if recipe in ("row", "tensor"):
        assert relative(got, logits_of_transformers(twin, prompts, tokens)) > 0.05  # as much as rounding the inputs is
        round_inputs(twin, recipe, engine.scales())
    wanted = logits_of_transformers(twin, prompts, tokens)
    errors = (got.float() - wanted).norm(dim=-1) / wanted.norm(dim=-1)
    assert float(errors.median()) < bound and float(errors.max()) < max(0.1, bound)


# These models have random weights, unit gain and no structure, which is the worst case of rounding.
@pytest.mark.parametrize("recipe,bound", [("row", 0.25), ("tensor", 0.25), ("int4", 0.65), (None, 0.03)])
@pytest.mark.parametrize("kind", ["llama", "gemma"])
def test_a_recipe_is_near_the_model_itself(kind, recipe, bound):
    model = model_of(kind, hidden_size=128, intermediate_size=256).bfloat16()
    prompts, tokens = sequences()
    engine = engine_of(model, recipe, torch.bfloat16)
    assert relative(engine.forced_logits(prompts, tokens), logits_of_transformers(model.float(), prompts, tokens)) < bound
    assert kind != "gemma" or "exact GELU" in engine.notes[0]


@pytest.mark.parametrize("head", ["row", "int4"])
@pytest.mark.parametrize("recipe", ["row", "int4", None])
@pytest.mark.parametrize("rows", [2, 16])
def test_a_quantised_head_is_near_the_other(recipe, head, rows):
    model = model_of("llama-tied", hidden_size=128).bfloat16()
    prompts, tokens = sequences(2)
    wanted = engine_of(model, recipe, torch.bfloat16).forced_logits(prompts, tokens, bucket=rows).float()
    engine = engine_of(model, recipe, torch.bfloat16, head=head)
    got = engine.forced_logits(prompts, tokens, bucket=rows)
    assert 1e-3 < relative(got, wanted) < {"row": 0.06, "int4": 0.2}[head]
    assert engine.model.head is not engine.model.embedding


@pytest.mark.parametrize("kind", ["llama", "llama-biases"])
def test_a_long_prompt_of_int4_is_gated_in_halves(kind):
    model = model_of(kind, hidden_size=128, max_position_embeddings=512).bfloat16()
    prompt = [torch.randint(2, 97, (200,), generator=torch.Generator().manual_seed(5))]
    tokens = torch.randint(2, 97, (1, 4), generator=torch.Generator().manual_seed(6))
    engine = engine_of(model, "int4", torch.bfloat16)
    wanted = logits_of_transformers(rounded_twin(model, engine), prompt, tokens)
    assert relative(engine.forced_logits(prompt, tokens), wanted) < 0.04


def test_the_output_of_a_step_may_not_lie_on_its_input():  # the twin can fail
    steps = chain_on_host.HostSteps()
    x, w = torch.zeros(2, 16), torch.zeros(16, 16)
    with pytest.raises(sluice.InvalidArgument, match="an output lies on an input"):
        steps.linear(x, w, out=x)
    steps.linear(torch.zeros(2, 16), w, c=x, out=x)


def test_one_scale_of_joined_weights_holds_all_parts():
    model = model_of("llama", hidden_size=128).bfloat16()
    layer = model.model.layers[0]
    layer.self_attn.v_proj.weight.data *= 20
    layer.mlp.up_proj.weight.data *= 20
    own = engine_of(model, "tensor", torch.bfloat16).model.layers[0]
    for operand, parts in ((own.qkv, [layer.self_attn.q_proj, layer.self_attn.k_proj, layer.self_attn.v_proj]),
                           (own.gate_up, [layer.mlp.gate_proj, layer.mlp.up_proj])):
        assert relative(operand.matrix(), torch.cat([part.weight for part in parts]).float()) < 0.04


# ---- launches
LAYERS = {"row": ["norm1 qkv", "quantize o norm2 gate_up silu_mul down"], "tensor": ["norm1 qkv", "o norm2 gate_up down"],
          None: ["norm1 qkv", "o norm2 gate_up down"]}


@pytest.mark.parametrize("recipe,rows", [("row", 1), ("tensor", 4), (None, 16), ("int4", 8), ("int4", 16)])
def test_a_layer_is_these_launches(recipe, rows):
    engine = engine_of(model_of("llama", hidden_size=128), recipe, torch.bfloat16)
    engine.generate([[5, 6]], max_new_tokens=2, bucket=rows)
    before, behind = LAYERS[None if recipe == "int4" else recipe]
    if (recipe, rows) == ("int4", 8):
        before, behind = "qkv", "o gate_up down"
    chain = engine._machine.chains[0]
    assert chain.names() == [line.split() for line in [before] + [f"{behind} {before}"] * 2 + [f"{behind} final_norm head"]]
    assert all(gap.nodes == 1 and not gap.waits for gap in chain.steps.gaps)


@pytest.mark.parametrize("kind", ["llama", "qwen3moe"])
def test_activations_are_shared_by_all_layers(kind):
    one, three = (engine_of(model_of(kind, num_hidden_layers=n), "row", torch.bfloat16) for n in (1, 3))
    sizes = []
    for engine in (one, three):
        engine.generate([[5]], max_new_tokens=2)
        sizes.append({t.data_ptr() for t in vars(engine._buckets[1].buffers).values() if isinstance(t, torch.Tensor)})
    assert len(sizes[0]) == len(sizes[1])


# ---- buckets
def test_a_row_has_the_same_tokens_and_logits_alone_and_in_a_full_bucket():
    model = model_of("qwen3", hidden_size=128).bfloat16()
    prompts, tokens = sequences(5)
    more = prompts + [torch.randint(2, 97, (n,)) for n in range(3, 14)]
    for recipe in ("row", "int4"):
        engine = engine_of(model, recipe, torch.bfloat16)
        alone = engine.forced_logits(prompts[:1], tokens[:1], bucket=16)
        full = engine.forced_logits(more, torch.cat((tokens, torch.randint(2, 97, (11, 8)))), bucket=16)
        assert torch.equal(alone[0], full[0])


def test_caches_grow_and_graphs_are_captured_again():
    engine = engine_of(model_of("llama"))
    ids = torch.tensor([[5, 6, 7]])
    first = engine.generate(ids, max_new_tokens=6)
    engine.generate(ids.expand(3, -1), max_new_tokens=6)
    captures = engine._machine.captures
    assert torch.equal(engine.generate(ids, max_new_tokens=6), first)
    assert (captures, engine._machine.captures, len(engine._machine.chains)) == (2, 3, 2)
    engine.generate(ids, max_new_tokens=6)
    assert engine._machine.captures == 3


# ---- lengths, stop tokens, padding
def padded(prompts, side, pad=0):
    longest = max(map(len, prompts))
    ids, mask = torch.full((len(prompts), longest), pad), torch.zeros(len(prompts), longest, dtype=torch.int64)
    for i, prompt in enumerate(prompts):
        where = slice(longest - len(prompt), longest) if side == "left" else slice(0, len(prompt))
        ids[i, where], mask[i, where] = prompt, 1
    return ids, mask


def test_left_padding_stop_tokens_and_the_end_are_those_of_transformers():
    model = model_of("llama")
    prompts, _ = sequences()
    ids, mask = padded(prompts, "left")
    free = model.generate(ids, attention_mask=mask, max_new_tokens=20, do_sample=False)
    engine = engine_of(model)
    assert torch.equal(engine.generate(ids, attention_mask=mask, max_new_tokens=20), free)
    new = free[:, ids.shape[1]:]
    stops = [int(new[0, 3]), int(new[1, 9]), int(new[2, 6])]  # every row ends, at places of its own
    wanted = model.generate(ids, attention_mask=mask, max_new_tokens=20, do_sample=False, eos_token_id=stops, pad_token_id=96)
    got = engine.generate(ids, attention_mask=mask, max_new_tokens=20, eos_token_id=stops, pad_token_id=96, check_every=3)
    assert torch.equal(got, wanted) and got.shape[1] < free.shape[1] and (got[:, ids.shape[1]:] == 96).any()
    assert engine._machine.tokens < 40  # the host saw the end
    assert engine._buckets[4].books.lengths.tolist() == [-1] * 4  # rows that ended are inactive


def test_right_padding_and_lists_give_the_tokens_of_left_padding():
    engine = engine_of(model_of("llama"))
    prompts, _ = sequences()
    ids, mask = padded(prompts, "left")
    left = engine.generate(ids, attention_mask=mask, max_new_tokens=7)
    right_ids, right_mask = padded(prompts, "right")
    right = engine.generate(right_ids, attention_mask=right_mask, max_new_tokens=7)
    assert torch.equal(right[:, :ids.shape[1]], right_ids) and torch.equal(right[:, ids.shape[1]:], left[:, ids.shape[1]:])
    assert torch.equal(engine.generate([p.tolist() for p in prompts], max_new_tokens=7), left)
    assert torch.equal(engine.generate(prompts[0].tolist(), max_new_tokens=7), left[:1])


def test_the_models_own_stop_tokens_end_and_an_empty_list_does_not():
    model = model_of("llama")
    ids = torch.tensor([[5, 6, 7]])
    free = engine_of(model).generate(ids, max_new_tokens=9)
    place = next(i for i in range(4, 12) if int(free[0, i]) not in free[0, 3:i])  # a token that was not there before
    model.generation_config.eos_token_id = [int(free[0, place])]
    model.config.eos_token_id = int(free[0, 3])  # generation_config goes before it
    engine = engine_of(model)
    assert torch.equal(engine.generate(ids, max_new_tokens=9), free[:, :place + 1])
    assert torch.equal(engine.generate(ids, max_new_tokens=9, eos_token_id=[]), free)


def test_a_first_token_that_stops_runs_no_step():
    engine = engine_of(model_of("llama"))
    ids = torch.tensor([[5, 6, 7]])
    first = int(engine.generate(ids, max_new_tokens=1)[0, 3])
    before = engine._machine.tokens
    assert engine.generate(ids, max_new_tokens=9, eos_token_id=first).shape == (1, 4) and engine._machine.tokens == before


def test_a_padding_token_outside_of_the_vocabulary_is_no_input():
    engine = engine_of(model_of("llama"))
    ids = torch.tensor([[5, 6, 7], [8, 9, 10]])
    free = engine.generate(ids, max_new_tokens=9)
    stop = int(free[0, 4])
    got = engine.generate(ids, max_new_tokens=9, eos_token_id=stop, pad_token_id=-1)
    assert int(got[0, -1]) == -1 and torch.equal(got[1], free[1])


def test_a_streamer_gets_every_token_once():
    engine = engine_of(model_of("llama"))
    ids = torch.tensor([[5, 6, 7], [8, 9, 10]])
    chunks = []
    whole = engine.generate(ids, max_new_tokens=10, check_every=4, streamer=chunks.append)
    assert [chunk.shape[1] for chunk in chunks] == [4, 4, 2] and torch.equal(torch.cat(chunks, 1), whole[:, 3:])
    engine.generate(ids + 20, max_new_tokens=10)
    assert torch.equal(torch.cat(chunks, 1), whole[:, 3:])  # chunks are copies
    ended = types.SimpleNamespace(put=lambda chunk: None, end=lambda: chunks.append("end"))
    engine.generate(ids, max_new_tokens=3, streamer=ended)
    assert chunks[-1] == "end"


# ---- sampling
def test_noise_is_gumbels_and_rows_steps_and_seeds_differ():
    keys = row_keys(7, 4, "cpu")
    ids = torch.arange(50000)[None]
    drawn = noise(keys, torch.tensor([3]), ids)
    assert abs(float(drawn.mean()) - 0.5772) < 0.02 and abs(float(drawn.var()) - math.pi ** 2 / 6) < 0.04
    uniform = torch.exp(-torch.exp(-drawn))
    counts = torch.histc(uniform, 64, 0, 1)
    expected = drawn.numel() / 64
    assert float(((counts - expected).square() / expected).sum()) < 120  # chi square of 63 degrees
    for other in (noise(keys, torch.tensor([4]), ids), noise(row_keys(8, 4, "cpu"), torch.tensor([3]), ids), drawn.roll(1, 0)):
        assert abs(float(torch.corrcoef(torch.stack((drawn.flatten(), other.flatten())))[0, 1])) < 0.01
        assert not torch.equal(drawn, other)


def test_sampled_tokens_follow_the_probabilities():
    rows = 20000
    books = Books(rows, 4, 7, "cpu")
    order = torch.tensor([3, 0, 6, 1, 5, 2, 4])  # it holds the token of each rank
    logits = torch.tensor([2.0, 1.0, 0.5, 0.0, -0.5, -1.0, -2.0])[order.argsort()].expand(rows, -1)

    def picked(mode, **more):
        books.begin([1] * rows, [], 0, **{**dict(seed=5, temperature=1.0, top_k=0, top_p=1.0), **more})
        return books.pick(logits, mode)

    def shares(mode, **more):
        return torch.bincount(picked(mode, **more), minlength=7).double()[order] / rows

    ranked = logits[0, order].double()
    p = ranked.softmax(0)
    assert torch.equal(picked("sample"), picked("filter"))  # the noise belongs to tokens, not to ranks
    assert torch.allclose(shares("sample"), p, atol=0.012)
    assert torch.allclose(shares("filter"), p, atol=0.012)
    assert torch.allclose(shares("sample", temperature=2.0), (ranked / 2).softmax(0), atol=0.012)
    three = p * (torch.arange(7) < 3)
    assert torch.allclose(shares("filter", top_k=3), three / three.sum(), atol=0.012)
    cut = p * (p.cumsum(0) - p < 0.75)
    assert 1 < int((cut > 0).sum()) < 7 and torch.allclose(shares("filter", top_p=0.75), cut / cut.sum(), atol=0.012)
    assert shares("filter", top_p=1e-6)[0] == 1


def test_sampling_is_repeated_by_its_seed_in_any_bucket_and_top_1_is_greedy():
    engine = engine_of(model_of("llama"))
    ids = torch.tensor([[5, 6, 7], [8, 9, 10]])
    drawn = engine.generate(ids, max_new_tokens=12, temperature=1.5, seed=11)
    assert torch.equal(engine.generate(ids, max_new_tokens=12, temperature=1.5, seed=11, bucket=8), drawn)
    assert torch.equal(engine.generate(ids[:1], max_new_tokens=12, temperature=1.5, seed=11), drawn[:1])
    assert not torch.equal(engine.generate(ids, max_new_tokens=12, temperature=1.5, seed=12), drawn)
    greedy = engine.generate(ids, max_new_tokens=12)
    assert torch.equal(engine.generate(ids, max_new_tokens=12, temperature=1.5, top_k=1), greedy)
    assert not torch.equal(drawn, greedy)


# ---- static scales
def test_scales_are_calibrated_once_on_the_first_prompts_or_given():
    model = model_of("llama", hidden_size=128).bfloat16()
    engine = engine_of(model, "tensor", torch.bfloat16)
    assert engine.scales() is None
    prompts, _ = sequences()
    engine.generate(prompts, max_new_tokens=2)
    made = engine.scales()
    seen = [0.0] * 4
    hooks = [module.register_forward_pre_hook(lambda _, inputs, i=i: seen.__setitem__(i, max(seen[i], float(inputs[0].abs().max()))))
             for i, module in enumerate((model.model.layers[1].self_attn.q_proj, model.model.layers[1].self_attn.o_proj,
                                         model.model.layers[1].mlp.up_proj, model.model.layers[1].mlp.down_proj))]
    for prompt in prompts:
        model(prompt[None])
    for hook in hooks:
        hook.remove()
    assert torch.allclose(made[1], torch.tensor(seen) * 2 / 448, rtol=0.08)
    engine.generate([[5]], max_new_tokens=2)
    assert torch.equal(engine.scales(), made)
    given = engine_of(model, "tensor", torch.bfloat16, scales=made)
    assert torch.equal(given.generate(prompts, max_new_tokens=5), engine.generate(prompts, max_new_tokens=5))
    chains = len(engine._machine.chains)
    before = engine.forced_logits(prompts, torch.ones(3, 3, dtype=torch.int64))
    engine.set_scales(made / 64)  # saturates
    assert relative(engine.forced_logits(prompts, torch.ones(3, 3, dtype=torch.int64)), before.float()) > 0.1
    assert len(engine._machine.chains) == chains


# ---- what it says
def test_stats_count_tokens_bytes_and_launches():
    engine = engine_of(model_of("llama").bfloat16(), "row", torch.bfloat16, max_length=32)
    with pytest.raises(sluice.InvalidArgument, match="call generate first"):
        engine.stats()
    engine.generate([[5, 6], [7, 8]], max_new_tokens=9)
    stats = engine.stats()
    kv, layer = 2 * 2 * 16 * 2 * 3, 64 * 128 + 64 * 64 + 3 * 64 * 96 + 4 * (128 + 64 + 192 + 64) + 2 * 2 * 64
    assert stats["bytes_token"] == 3 * layer + 2 * 64 + 97 * 64 * 2 + 2 * int(kv * (2 + 4.5))
    assert stats["tokens"] == 8 and stats["rows"] == 2 and stats["bucket"] == 2 and stats["launches_token"] == 3 * 8 + 2
    assert stats["tokens_s"] == pytest.approx(2 / stats["ms_token"] * 1e3)
    assert stats["hbm_share"] == pytest.approx(stats["bytes_token"] / (stats["ms_token"] * 1e-3) / 4800e9)
    assert "recipe 'row'" in repr(engine) and "final_norm head" in engine.explain(2)


def test_attention_may_be_the_callers():
    from sluice.torch.decode.reference import ReferenceAttention

    made = []

    class Own(ReferenceAttention):
        waits = triggers = True

        def __init__(self, **what):
            made.append(what)
            super().__init__(**what)

    model = model_of("smollm3")
    engine = engine_of(model, attention=Own)
    assert torch.equal(engine.generate([[5, 6]], max_new_tokens=4), engine_of(model).generate([[5, 6]], max_new_tokens=4))
    assert sorted(what["rotary"] is None for what in made) == [False, True]  # one for layers that rotate, one for the others
    assert all(gap.waits and gap.triggers for gap in engine._machine.chains[0].steps.gaps)


def test_a_bar_is_drawn_on_terminals_alone(capsys):
    with Progress("packing", 2) as bar:
        bar.step()
    assert capsys.readouterr().err == ""
    text = types.SimpleNamespace(lines=[], isatty=lambda: True, flush=lambda: None)
    text.write = text.lines.append
    with Progress("packing", 2, stream=text) as bar:
        bar.step()
        bar.step()
    assert "2 of 2" in text.lines[-2] and text.lines[-1] == "\n"


@pytest.mark.parametrize("kind,scale", [("gemma", 1.0), ("granite", 3.1), ("llama", 1.0)])
def test_embeddings_in_bf16_have_the_bits_of_transformers(kind, scale):
    model = model_of(kind, hidden_size=96, **({"embedding_multiplier": scale} if kind == "granite" else {})).bfloat16()
    ids = torch.arange(97)
    wanted = model.model.embed_tokens(ids) * (scale if kind == "granite" else 1)
    assert torch.equal(engine_of(model, None, torch.bfloat16).model.embed(ids), wanted)


def test_the_twins_have_the_arguments_of_what_they_stand_for():
    import inspect

    import sluice.torch as st
    from sluice.torch.decode.reference import ReferenceAttention, ReferenceRouter

    def names(function):
        return set(inspect.signature(function).parameters)

    for name in ("rms_norm", "rms_norm_quantize", "linear", "scaled_mm", "packed_mm", "quantize", "silu_mul_quantize", "gap"):
        assert names(getattr(chain_on_host.HostSteps, name)) == names(getattr(st.Steps, name)), name
    for name in ("grouped_mm", "scaled_grouped_mm", "packed_grouped_mm", "slots_mm", "route", "gather", "combine"):  # without what decode does not use
        assert names(getattr(chain_on_host.HostSteps, name)) <= names(getattr(st.Steps, name)), name
    of_experts = vars(chain_on_host.FUNCTIONS)["moe"]
    for name, twin in {**vars(chain_on_host.FUNCTIONS), **vars(of_experts)}.items():
        assert twin is of_experts or names(twin) - {"out", "scales"} <= names(getattr(st, name, getattr(st.moe, name, None))), name
    pytest.importorskip("triton")
    from sluice.torch.attention import Attention

    assert names(ReferenceAttention.__init__) <= names(Attention.__init__)
    assert names(ReferenceAttention.__call__) == names(Attention.__call__)
    from sluice.torch.decode.router import Router

    assert names(ReferenceRouter.__init__) <= names(Router.__init__)
    assert names(ReferenceRouter.__call__) == names(Router.__call__)
