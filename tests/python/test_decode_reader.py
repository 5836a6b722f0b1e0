# SPDX-License-Identifier: Apache-2.0
"""sluice.decode's reader, and what it refuses: folders, saved engines, rotary frequencies, keys and tensors of other models, and misuse.
Without a GPU; test_decode.py has what is computed."""
import json
import math

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

import sluice  # noqa: E402
from chain_on_host import HostMachine  # noqa: E402
from decode_cases import LLAMA3, SMALL, engine_of, model_of, sequences  # noqa: E402
from sluice.torch.decode import decode  # noqa: E402
from sluice.torch.decode.architecture import architecture_of  # noqa: E402


# ---- files
@pytest.mark.parametrize("recipe,head", [("row", None), ("tensor", "row"), ("int4", "int4"), (None, None)])
@pytest.mark.parametrize("kind", ["llama-biases", "qwen3", "llama-tied"])
def test_a_saved_engine_comes_back_with_the_same_bits(tmp_path, kind, recipe, head):
    model = model_of(kind, hidden_size=128).bfloat16()
    model.generation_config.eos_token_id = 50
    engine = engine_of(model, recipe, torch.bfloat16, head=head)
    prompts, tokens = sequences()
    wanted = engine.forced_logits(prompts, tokens)
    engine.save(tmp_path / "saved")
    again = decode(tmp_path / "saved", _machine=HostMachine())
    assert (again.recipe, again.head, again._stops) == (recipe, head, [50])
    assert torch.equal(again.forced_logits(prompts, tokens), wanted)
    with pytest.raises(sluice.InvalidArgument, match="leave recipe out"):
        decode(tmp_path / "saved", "row" if recipe != "row" else None, _machine=HostMachine())
    decode(tmp_path / "saved", recipe, head=head, dtype=torch.bfloat16, _machine=HostMachine())
    for other in ({"dtype": torch.float16}, {"group": 32}, {"head": "row" if head != "row" else None}):
        with pytest.raises(sluice.InvalidArgument, match=f"leave {next(iter(other))} out"):
            decode(tmp_path / "saved", _machine=HostMachine(), **other)
    with pytest.raises(Exception, match="(?i)no file named|weights"):
        type(model).from_pretrained(tmp_path / "saved")


def test_a_folder_that_is_not_whole_is_refused(tmp_path):
    engine_of(model_of("llama")).save(tmp_path)
    facts = json.loads((tmp_path / "sluice.json").read_text())
    (tmp_path / "sluice.json").write_text(json.dumps({**facts, "format": 99}))
    with pytest.raises(sluice.StorageError, match="format 99"):
        decode(tmp_path, _machine=HostMachine())
    (tmp_path / "sluice.json").write_text(json.dumps({**facts, "files": facts["files"] + ["gone.safetensors"]}))
    with pytest.raises(sluice.StorageError, match="gone.safetensors"):
        decode(tmp_path, _machine=HostMachine())
    (tmp_path / "sluice.json").unlink()
    with pytest.raises(sluice.StorageError, match="neither model.safetensors"):
        decode(tmp_path, _machine=HostMachine())


@pytest.mark.parametrize("kind", ["llama-biases", "phi3-partial", "gemma", "smollm3", "mistral-window", "qwen3moe-mixed", "mixtral"])
@pytest.mark.parametrize("shard", ["1GB", "100KB"])
def test_a_folder_is_read_as_the_model_is(tmp_path, kind, shard):
    model = model_of(kind).bfloat16()
    model.save_pretrained(tmp_path, max_shard_size=shard)
    prompts, tokens = sequences()
    wanted = engine_of(model, "row", torch.bfloat16).forced_logits(prompts, tokens)
    assert torch.equal(engine_of(tmp_path, "row", torch.bfloat16).forced_logits(prompts, tokens), wanted)
    assert torch.equal(engine_of(str(tmp_path), "row", torch.bfloat16).forced_logits(prompts, tokens), wanted)


def test_configs_of_transformers_4_and_bare_ones_mean_the_same():
    base = dict(model_type="llama", hidden_size=64, intermediate_size=96, num_hidden_layers=2, num_attention_heads=4, vocab_size=97)
    old = architecture_of({**base, "max_position_embeddings": 64, "rope_theta": 5e5,
                           "rope_scaling": {**LLAMA3, "rope_theta": None, "type": "llama3"},
                           "torch_dtype": "bfloat16", "num_key_value_heads": None, "pretraining_tp": 1, "rope_interleaved": False})
    new = architecture_of({**base, "max_position_embeddings": 64, "rope_parameters": {**LLAMA3, "rope_theta": 5e5}})
    assert old == new and old.kv_heads == 4 and old.head_dim == 16


@pytest.mark.parametrize("name", ["Llama", "Mistral", "Qwen2", "Qwen3", "Phi3", "Gemma", "SmolLM3", "Granite", "Qwen3Moe", "Mixtral"])
def test_keys_that_a_file_leaves_out_have_the_values_of_transformers(name):
    bare = dict(hidden_size=1024, intermediate_size=96, num_hidden_layers=9, num_attention_heads=4, num_key_value_heads=2, vocab_size=97,
                max_position_embeddings=64)
    if name == "Qwen3Moe":
        bare.update(num_experts=16, num_experts_per_tok=4, moe_intermediate_size=32)
    if name == "Mixtral":
        bare.update(num_local_experts=4)
    config = getattr(transformers, name + "Config")(**bare)
    assert architecture_of({"model_type": config.model_type, **bare}) == architecture_of(config.to_dict())


ROPES = {"linear": dict(factor=4.0), "dynamic": dict(factor=2.0), "llama3": {k: v for k, v in LLAMA3.items() if k[:4] != "rope"},
         "yarn": dict(factor=4.0, original_max_position_embeddings=16), "yarn-mscale": dict(
             rope_type="yarn", factor=4.0, original_max_position_embeddings=16, mscale=0.7, mscale_all_dim=1.0, beta_fast=16,
             truncate=False),
         "longrope": dict(short_factor=[1.0 + i / 8 for i in range(8)], long_factor=[2.0] * 8, original_max_position_embeddings=32)}


@pytest.mark.parametrize("name", ROPES)
def test_rotary_frequencies_are_those_of_transformers(name):
    own = {"rope_type": name, "rope_theta": 10000.0, **ROPES[name]}
    config = transformers.LlamaConfig(**{**SMALL, "rope_parameters": own, "max_position_embeddings": 64})
    wanted = transformers.models.llama.modeling_llama.LlamaRotaryEmbedding(config)
    rope = architecture_of(config.to_dict()).rope
    assert torch.allclose(torch.tensor(rope.frequencies), wanted.inv_freq, rtol=1e-6)
    assert rope.scale == pytest.approx(wanted.attention_scaling)
    cos, sin = rope.tables(20, "cpu")
    theirs = wanted(torch.zeros(1), torch.arange(20)[None])
    assert torch.allclose(cos, theirs[0][0, :, :8], atol=1e-6) and torch.allclose(sin, theirs[1][0, :, :8], atol=1e-6)


# ---- refusals
OTHERS = [
    ("Qwen2Moe", dict(num_experts=4), "num_local_experts|num_experts|shared_expert"), ("Olmoe", dict(num_experts=4), "experts"),
    ("DeepseekV3", dict(), "n_routed_experts|kv_lora_rank"), ("Gemma2", dict(head_dim=16), "attn_logit_softcapping"),
    ("Olmo2", {}, "post_feedforward_layernorm"), ("Olmo", {}, "input_layernorm"), ("Cohere", {}, "layer_norm_eps|logit_scale"),
    ("Phi", {}, "layer_norm_eps"), ("StableLm", {}, "layer_norm_eps"), ("Falcon", {}, "layer_norm_epsilon"),
    ("Bloom", {}, "layer_norm_epsilon"),
    ("Mpt", {}, "layer_norm_epsilon|attn_config"), ("GPT2", {}, "layer_norm_epsilon"), ("Glm", dict(head_dim=16), "model_type|gate_up"),
    ("Helium", dict(head_dim=16), "model_type"), ("Starcoder2", {}, "norm_epsilon"), ("Nemotron", {}, "norm_eps"),
    ("OPT", {}, "model_type"),
]


@pytest.mark.parametrize("name,more,key", OTHERS)
def test_another_model_is_refused_by_its_key_or_tensor(name, more, key):
    config = getattr(transformers, name + "Config")(**{**{k: v for k, v in SMALL.items() if k not in ("eos_token_id",)}, **more})
    if name == "Falcon":
        config.alibi = True
    model = getattr(transformers, name + "ForCausalLM" if name not in ("GPT2",) else "GPT2LMHeadModel")(config)
    with pytest.raises(sluice.InvalidArgument, match=key) as error:
        engine_of(model)
    assert "the model" in str(error.value)


@pytest.mark.parametrize("more,words", [
    (dict(hidden_act="relu"), "hidden_act = 'relu'"),
    (dict(rope_parameters={"rope_type": "proportional", "rope_theta": 1e4, "partial_rotary_factor": 0.5}), "rope_type = 'proportional'"),
    (dict(attn_logit_softcapping=30.0), "attn_logit_softcapping = 30.0: scores are capped"),
    (dict(embedding_multiplier=2.0), "embedding_multiplier = 2.0"),
    (dict(brand_new_key=1), "brand_new_key = 1: decode does not know"),
    (dict(quantization_config={"quant_method": "gptq", "bits": 4}), "quantization_config"),
    (dict(num_key_value_heads=3), "num_key_value_heads = 3: it must divide"),
    (dict(hidden_size=0), "hidden_size = 0: it must be a positive"), (dict(vocab_size="many"), "vocab_size = 'many'"),
    (dict(rope_parameters={"rope_type": "default", "rope_theta": 1e4, "twist": 2}), "rope_parameters.twist = 2"),
    (dict(is_encoder_decoder=True), "is_encoder_decoder"), (dict(layer_types=["full_attention", "sliding_attention"]), "layer_types"),
])
def test_a_key_that_changes_a_known_model_is_refused(more, words):
    config = {"model_type": "llama", "num_hidden_layers": 2, **{k: v for k, v in SMALL.items() if k != "num_hidden_layers"}}
    architecture_of(config)
    with pytest.raises(sluice.InvalidArgument) as error:
        architecture_of({**config, **more})
    assert words in str(error.value)


@pytest.mark.parametrize("more", [dict(sliding_window=None), dict(brand_new_switch=False), dict(brand_new_list=[]),
                                  dict(attention_dropout=0.1)])
def test_a_key_that_says_nothing_is_accepted(more):
    architecture_of({"model_type": "llama", **SMALL, **more})


def test_tensors_that_nobody_reads_or_that_lack_are_named():
    model = model_of("llama")
    model.model.layers[1].self_attn.extra_proj = torch.nn.Linear(4, 4)
    with pytest.raises(sluice.InvalidArgument, match="layers.1.self_attn.extra_proj.weight, which decode does not read"):
        engine_of(model)
    model = model_of("llama")
    del model.model.layers[2].mlp.up_proj
    with pytest.raises(sluice.InvalidArgument, match="no tensor model.layers.2.mlp.up_proj.weight"):
        engine_of(model)
    model = model_of("llama")
    model.model.layers[0].mlp.down_proj = torch.nn.Linear(96, 32, bias=False)
    with pytest.raises(sluice.InvalidArgument, match=r"down_proj.weight has shape \(32, 96\) and must have \(64, 96\)"):
        engine_of(model)
    with pytest.raises(sluice.InvalidArgument, match="no tensor lm_head.weight|no tensor model.layers"):
        engine_of(model_of("llama").model)


def test_models_without_data_or_of_other_types_are_refused():
    with torch.device("meta"):
        empty = transformers.LlamaForCausalLM(transformers.LlamaConfig(**SMALL))
    with pytest.raises(sluice.InvalidArgument, match="on the meta device"):
        engine_of(empty)
    with pytest.raises(sluice.InvalidType, match="must be a causal language model"):
        engine_of(torch.nn.Linear(4, 4))
    with pytest.raises(sluice.StorageError, match="is no folder"):
        engine_of("meta-llama/Llama-3.1-8B")
    model = model_of("llama")
    model.model.layers[0].mlp.down_proj.weight.data = torch.zeros(64, 96, dtype=torch.uint8)
    with pytest.raises(sluice.InvalidType, match="down_proj.weight is torch.uint8"):
        engine_of(model)
    tied = model_of("llama-tied")
    tied.lm_head.weight = torch.nn.Parameter(tied.lm_head.weight.data + 1)
    with pytest.raises(sluice.InvalidArgument, match="lm_head.weight differs"):
        engine_of(tied)


# ---- misuse
def test_decode_needs_a_gpu():
    if torch.cuda.is_available():
        pytest.skip("there is one")
    with pytest.raises(sluice.WrongDevice, match="needs a CUDA device"):
        decode(model_of("llama"))
    with pytest.raises(sluice.WrongDevice, match="device = 'cpu' must be a CUDA device"):
        decode(model_of("llama"), device="cpu")


@pytest.mark.parametrize("arguments,words", [
    (dict(recipe="fp8"), "recipe = 'fp8' must be one of 'row', 'tensor', 'int4', None"),
    (dict(head="tensor"), "head = 'tensor' must be one of"),
    (dict(overlap="on"), "overlap = 'on'"), (dict(tune=-1.0), "tune = -1.0"), (dict(tune=1.0, overlap="off"), "tuning is of"),
    (dict(dtype=torch.float64), "dtype = torch.float64"), (dict(max_length=65), "max_length = 65 must be in 1..64"),
    (dict(scales=torch.ones(3, 4)), "scales are given and recipe = None"),
    (dict(recipe="tensor", scales=torch.ones(4)), "scales has shape"),
    (dict(recipe="tensor", scales=torch.zeros(3, 4)), "positive and finite"), (dict(recipes="row"), "recipes"),
])
def test_decode_says_what_is_wrong(arguments, words):
    with pytest.raises(sluice.Error) as error:
        decode(model_of("llama"), **{"recipe": None, "_machine": HostMachine(), **arguments})
    assert words in str(error.value)


@pytest.mark.parametrize("ids,arguments,words", [
    ([[]], {}, "must hold at least one token"), ("text", {}, "must be an integer tensor"), (torch.ones(2, 3), {}, "whole numbers"),
    ([[97]], {}, "must be in 0..96"), ([[-1]], {}, "must be in 0..96"), ([[5]] * 65, {}, "may have 64"),
    ([[5]], dict(bucket=3), "bucket = 3"),
    ([[5]] * 3, dict(bucket=2), "bucket = 2"), ([[5]], dict(max_new_tokens=64), "need 65 places"),
    ([[5]], dict(max_new_tokens=0), "must be positive"),
    ([[5]], dict(temperature=-1.0), "temperature = -1.0"), ([[5]], dict(top_k=3), "pass a temperature"),
    ([[5]], dict(temperature=1.0, top_p=0.0), "top_p"),
    ([[5]], dict(eos_token_id=list(range(17))), "at most 16"), ([[5]], dict(check_every=0), "check_every = 0"),
    ([[5]], dict(do_sample=True), "do_sample"),
    (torch.tensor([[5, 6, 7]]), dict(attention_mask=torch.tensor([[1, 0, 1]])), "has a hole"),
    (torch.tensor([[5, 6, 7]]), dict(attention_mask=torch.tensor([[0, 0, 0]])), "at least one token"),
    (torch.tensor([[5, 6, 7]]), dict(attention_mask=torch.ones(1, 2)), "input_ids' shape"),
    (torch.tensor([[0, 6, 7], [5, 6, 7]]), {}, "pass the tokenizer's attention_mask"),
    ([[5]], dict(attention_mask=torch.ones(1, 1)), "leave it out"),
])
def test_generate_says_what_is_wrong(ids, arguments, words):
    engine = engine_of(model_of("llama"))
    with pytest.raises(sluice.Error) as error:
        engine.generate(ids, **{"max_new_tokens": 4, **arguments})
    assert words in str(error.value)


def test_longrope_beyond_its_short_factors_is_refused():
    own = {"rope_type": "longrope", "rope_theta": 1e4, **ROPES["longrope"]}
    model = model_of("phi3", rope_parameters=own, original_max_position_embeddings=32)
    assert engine_of(model).model.max_length == 32
    with pytest.raises(sluice.InvalidSize, match="max_length = 33 must be in 1..32: beyond it, 'longrope'"):
        engine_of(model, max_length=33)


def test_random_weights_have_a_configs_tensors():
    from sluice.torch.decode import CONFIGS, RandomSource

    for kind in ("llama-biases", "qwen3", "phi3", "gemma", "smollm3", "qwen3moe-mixed", "mixtral"):
        config = model_of(kind).config.to_dict()
        source = RandomSource(config, "cpu")
        assert set(source.names) == {name for name in model_of(kind).state_dict() if not (source.shape.tied and name == "lm_head.weight")}
        made = engine_of(source, "row", torch.bfloat16).generate([[5, 6, 7]], max_new_tokens=4)
        assert torch.equal(engine_of(RandomSource(config, "cpu"), "row", torch.bfloat16).generate([[5, 6, 7]], max_new_tokens=4), made)
    sizes = {"llama3-8b": 8030261248, "qwen3-8b": 8190735360, "qwen3-30b-a3b": 30532122624}
    for name, config in CONFIGS.items():
        source = RandomSource(config, "meta")
        assert sum(math.prod(size) for size in source._sizes.values()) == sizes[name]


def test_a_model_of_many_stop_tokens_says_whose_they_are():
    engine = engine_of(model_of("llama"))
    engine._stops = list(range(20))
    with pytest.raises(sluice.InvalidArgument, match="generation_config.json has 20 stop tokens"):
        engine.generate(torch.tensor([[1, 2]]), max_new_tokens=2)
    assert engine.generate(torch.tensor([[1, 2]]), max_new_tokens=2, eos_token_id=[]).shape == (1, 4)
