# SPDX-License-Identifier: Apache-2.0
"""The quantizer of transformers, on the CPU: which layers, which bits, what is saved and loaded, and what mistakes raise.

Products need a GPU, so logits are those of tools/recipe_accuracy.py's references: fp32, of dequantised weights and inputs.
"""
import copy
import json
import sys
import weakref

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

import safetensors.torch  # noqa: E402
import sluice  # noqa: E402
import sluice.torch as st  # noqa: E402
import sluice.transformers as sx  # noqa: E402
from sluice.transformers import SluiceConfig  # noqa: E402
from transformers import AutoModel, AutoModelForCausalLM  # noqa: E402

SMALL = dict(hidden_size=128, intermediate_size=256, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, vocab_size=256)
HEADS = dict(head_dim=32)
CONFIGS = {"llama": lambda **more: transformers.LlamaConfig(**SMALL, **more),
           "qwen3": lambda **more: transformers.Qwen3Config(**SMALL, **HEADS, **more),
           "mistral": lambda **more: transformers.MistralConfig(**SMALL, **more),
           "phi3": lambda **more: transformers.Phi3Config(**SMALL, pad_token_id=0, **more),
           "gemma": lambda **more: transformers.GemmaConfig(**SMALL, **HEADS, **more)}
RECIPES = ["tensor", "row", "block", "int4", "int8"]
# The largest relative error of logits of these models, in the recipe's own rounding. The next coarser recipe exceeds it.
BOUNDS = {"tensor": 0.1, "row": 0.1, "block": 0.1, "int4": 0.4, "int8": 0.03}
QUANTISED = (st.nn.Linear, st.nn.LinearPacked)


@pytest.fixture(scope="module")
def accuracy(source_root):
    tools = str(source_root / "tools")
    sys.path.insert(0, tools)
    import recipe_accuracy

    yield recipe_accuracy
    sys.path.remove(tools)


@pytest.fixture
def folder(tmp_path):
    """Returns a function: folder(name) saves a tiny random model of a family and returns its folder."""
    def saved(name="llama", dtype=torch.bfloat16, **more):
        torch.manual_seed(0)
        model = AutoModelForCausalLM.from_config(CONFIGS[name](**more)).to(dtype)
        model.save_pretrained(tmp_path / "plain")
        return tmp_path / "plain"

    return saved


def loaded(path, *arguments, **named):
    return AutoModelForCausalLM.from_pretrained(path, *arguments, **named)


def same_bits(one, other):
    """Asserts that two models have the same tensors, with the same bits."""
    states = one.state_dict(), other.state_dict()
    assert set(states[0]) == set(states[1])
    for name, tensor in states[0].items():
        assert tensor.dtype is states[1][name].dtype and tensor.shape == states[1][name].shape, name
        assert torch.equal(tensor.reshape(-1).view(torch.uint8), states[1][name].reshape(-1).view(torch.uint8)), name


def layers_of(model):
    return [name for name, module in model.named_modules() if isinstance(module, QUANTISED)]


@pytest.mark.parametrize("recipe", RECIPES)
@pytest.mark.parametrize("name", CONFIGS)
def test_a_model_is_quantised_as_convert_does_saved_and_read_again(tmp_path, folder, accuracy, name, recipe):
    path = folder(name)
    model = loaded(path, quantization_config=SluiceConfig(recipe))
    plain = loaded(path)
    same_bits(model, st.nn.convert_(copy.deepcopy(plain), recipe=recipe, report=lambda done: None))
    assert type(model.lm_head) is torch.nn.Linear and not model.training
    assert (model.lm_head.weight is model.get_input_embeddings().weight) == model.config.tie_word_embeddings
    assert not any(p.requires_grad for module in model.modules() if isinstance(module, QUANTISED) for p in module.parameters())

    model.save_pretrained(tmp_path / "saved")
    again = loaded(tmp_path / "saved")
    same_bits(model, again)
    assert not any(p.requires_grad for module in again.modules() if isinstance(module, QUANTISED) for p in module.parameters())
    again.save_pretrained(tmp_path / "twice")
    same_bits(model, loaded(tmp_path / "twice"))

    ids = torch.arange(24).reshape(2, 12) % 256
    with torch.no_grad():
        wanted = plain.float()(ids).logits
        got = accuracy.with_references(again)
        got.is_quantized = False  # transformers refuses float() of a quantised model
        logits = got.float()(ids).logits
    error = float((logits - wanted).norm() / wanted.norm())
    assert BOUNDS[recipe] / 100 < error < BOUNDS[recipe], error


def test_nothing_is_quantised_a_second_time(folder, tmp_path, monkeypatch):
    loaded(folder(), quantization_config=SluiceConfig("int4")).save_pretrained(tmp_path / "saved")

    def never(*arguments, **named):
        raise AssertionError("a folder of codes was quantised")

    monkeypatch.setattr(sx.SluiceQuantizer, "quantized", never)
    model = loaded(tmp_path / "saved")
    assert not any(model.hf_quantizer.param_needs_quantization(model, f"{name}.weight") for name in layers_of(model))


def test_a_weight_is_quantised_by_itself(folder, monkeypatch):
    """Never more than one weight of 16 bits, that is to be quantised, is in memory: it fails if weights are read ahead."""
    from transformers import core_model_loading

    alive, most = [0], [0]
    of = core_model_loading._materialize_copy

    def watched(tensor, *arguments, **named):
        read = of(tensor, *arguments, **named)
        if read.dim() == 2 and read.dtype is torch.bfloat16:
            alive[0] += 1
            most[0] = max(most[0], alive[0])
            weakref.finalize(read, lambda: alive.__setitem__(0, alive[0] - 1))
        return read

    monkeypatch.setattr(core_model_loading, "_materialize_copy", watched)
    model = loaded(folder(), quantization_config=SluiceConfig("row"))
    kept = sum(parameter.dim() == 2 and parameter.dtype is torch.bfloat16 for parameter in model.parameters())
    assert kept == 2 and most[0] <= kept + 1


def test_what_stays_is_noted_and_followed(folder, tmp_path):
    config = SluiceConfig("row", modules_to_not_convert=["layers.0", r"o_p.*", "mlp.up_proj"])
    model = loaded(folder(), quantization_config=config)
    assert layers_of(model) == [f"model.layers.1.{name}" for name in ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj",
                                                                      "mlp.gate_proj", "mlp.down_proj")]
    model.save_pretrained(tmp_path / "saved")
    same_bits(model, loaded(tmp_path / "saved"))
    base = AutoModel.from_pretrained(tmp_path / "saved")
    assert [f"model.{name}" for name in layers_of(base)] == layers_of(model)
    same_bits(base, model.model)


def test_a_callers_configuration_is_not_written_into(folder):
    config = SluiceConfig("int4")
    model = transformers.LlamaForCausalLM.from_pretrained(folder(), quantization_config=config)  # AutoModel makes a copy itself
    assert (config.kept, config.scale_type) == (None, None)
    assert (model.config.quantization_config.kept, model.config.quantization_config.scale_type) == (["lm_head"], "bfloat16")


@pytest.mark.parametrize("recipe", ["row", "int8"])
def test_no_key_is_reported_as_missing_or_left_over(folder, tmp_path, recipe):
    path, config = folder(), SluiceConfig(recipe)
    for _ in range(2):
        model, said = loaded(path, output_loading_info=True, **({} if config is None else {"quantization_config": config}))
        assert not any(said[what] for what in ("missing_keys", "unexpected_keys", "mismatched_keys", "error_msgs")), said
        path, config = tmp_path / "saved", None
        model.save_pretrained(path)
    assert not any("up_proj" in pattern for pattern in model._keys_to_ignore_on_load_unexpected)


def test_modules_that_transformers_keeps_in_fp32_stay(folder, monkeypatch):
    monkeypatch.setattr(transformers.LlamaForCausalLM, "_keep_in_fp32_modules", ["o_proj"])
    model = loaded(folder(), quantization_config=SluiceConfig("row"))
    assert len(layers_of(model)) == 12 and type(model.model.layers[0].self_attn.o_proj) is torch.nn.Linear


def test_a_head_is_quantised_if_asked(folder, tmp_path):
    model = loaded(folder(), quantization_config=SluiceConfig("int8", lm_head=True))
    assert isinstance(model.lm_head, st.nn.Linear8bit)
    model.save_pretrained(tmp_path / "saved")
    same_bits(model, loaded(tmp_path / "saved"))


def test_a_tied_head_is_refused(folder):
    with pytest.raises(sluice.InvalidArgument, match=r"lm_head = True, and the weight of lm_head is tied to model.embed_tokens.weight.*"
                                                     r"leave lm_head out"):
        loaded(folder("gemma"), quantization_config=SluiceConfig("row", lm_head=True))


def test_options_come_back(folder, tmp_path):
    config = SluiceConfig("int4", group=64, activations="e4m3")
    model = loaded(folder(), quantization_config=config)
    layer = model.model.layers[0].mlp.up_proj
    assert layer.activations == "e4m3" and layer.format.group == 64
    model.save_pretrained(tmp_path / "saved")
    again = loaded(tmp_path / "saved", dtype=torch.float16)  # the scales stay of the type that they were saved as
    assert again.model.layers[0].mlp.up_proj.format.number == layer.format.number and again.dtype is torch.float16
    model = loaded(folder(), quantization_config=SluiceConfig("row", use_fast_accum=True, fuse_quantizer=True))
    model.save_pretrained(tmp_path / "row")
    layer = loaded(tmp_path / "row").model.layers[1].self_attn.o_proj
    assert layer.use_fast_accum and layer.fuse_quantizer


def test_biases_are_loaded(tmp_path):
    torch.manual_seed(0)
    plain = AutoModelForCausalLM.from_config(transformers.Qwen2Config(**SMALL)).to(torch.bfloat16)
    with torch.no_grad():
        for name, tensor in plain.named_parameters():
            if name.endswith("bias"):
                tensor.uniform_(-1, 1)
    plain.save_pretrained(tmp_path / "plain")
    model = loaded(tmp_path / "plain", quantization_config=SluiceConfig("row"))
    model.save_pretrained(tmp_path / "saved")
    for one in (model, loaded(tmp_path / "saved")):
        assert torch.equal(one.model.layers[0].self_attn.q_proj.bias, plain.model.layers[0].self_attn.q_proj.bias)
        assert not one.model.layers[0].self_attn.q_proj.bias.requires_grad


def test_experts_stay_and_come_back(tmp_path):
    torch.manual_seed(0)
    plain = AutoModelForCausalLM.from_config(transformers.MixtralConfig(**SMALL, num_local_experts=4)).to(torch.bfloat16)
    plain.save_pretrained(tmp_path / "plain")
    model = loaded(tmp_path / "plain", quantization_config=SluiceConfig("row"))
    assert len(layers_of(model)) == 8
    model.save_pretrained(tmp_path / "saved")
    same_bits(model, loaded(tmp_path / "saved"))


def test_fp32_weights_are_taken_by_fp8_and_refused_by_packed_recipes(folder):
    path = folder(dtype=torch.float32)
    model = loaded(path, dtype=torch.float32, quantization_config=SluiceConfig("row"))
    assert len(layers_of(model)) == 14
    with pytest.raises(sluice.InvalidArgument, match=r"its weight is torch.float32 and must be torch.bfloat16 or torch.float16"):
        loaded(path, dtype=torch.float32, quantization_config=SluiceConfig("int4"))
    assert len(layers_of(loaded(path, dtype=torch.bfloat16, quantization_config=SluiceConfig("int4")))) == 14


def test_a_dict_in_the_way_of_transformers_is_taken(folder):
    assert layers_of(loaded(folder(), quantization_config={"quant_method": "sluice", "recipe": "row"}))


def test_without_the_quantizer_a_folder_of_codes_is_no_plain_model(folder, tmp_path, monkeypatch):
    loaded(folder(), quantization_config=SluiceConfig("row")).save_pretrained(tmp_path / "saved")
    monkeypatch.delitem(sx.AUTO_QUANTIZER_MAPPING, "sluice")
    monkeypatch.delitem(sx.AUTO_QUANTIZATION_CONFIG_MAPPING, "sluice")
    with pytest.raises(RuntimeError, match="ignore_mismatched_sizes"):
        loaded(tmp_path / "saved")


@pytest.mark.parametrize("how, match", [
    (dict(recipe=None), r"recipe = None quantises nothing.*SluiceConfig\('row'\)"),
    (dict(recipe="fp8"), r"recipe = 'fp8' must be one of tensor, row, block.*did you mean row\?"),
    (dict(recipe="int"), r"recipe = 'int' must be one of.*did you mean int"),
    (dict(recipe="row", group=64), r"group = 64 is for the recipes int4, int8: leave it out"),
    (dict(recipe="int4", group=100), r"group 100.*group must be 32, 64, 128"),
    (dict(recipe="row", activations="e4m3"), r"activations = 'e4m3' is for recipe = 'int4'"),
    (dict(recipe="int4", use_fast_accum=True), r"use_fast_accum.*mean nothing for recipe = 'int4'"),
    (dict(recipe="row", lm_head="no"), r"lm_head = 'no' must be True or False"),
    (dict(recipe="row", groups=64), r"SluiceConfig takes no 'groups': did you mean group\?"),
    (dict(recipe="row", modules_to_not_convert="mlp"), r"modules_to_not_convert = 'mlp' must be a list"),
    (dict(recipe="row", modules_to_not_convert=[3]), r"modules_to_not_convert has 3 and must hold names"),
    (dict(recipe="row", modules_to_not_convert=["mlp("]), r"modules_to_not_convert has 'mlp\(', which is no name"),
])
def test_a_wrong_configuration_raises(how, match):
    with pytest.raises(sluice.Error, match=match):
        SluiceConfig(**how)


def test_a_name_of_no_module_raises(folder):
    with pytest.raises(sluice.InvalidArgument, match=r"modules_to_not_convert has 'lm_haed', and the model has no such module: did "
                                                     r"you mean lm_head\?"):
        loaded(folder(), quantization_config=SluiceConfig("row", modules_to_not_convert=["lm_haed"]))


def test_a_model_without_a_layer_to_convert_raises(folder):
    with pytest.raises(sluice.InvalidArgument, match=r"filter_fn is false for all of the model's 15 layers|can take none|converts nothing"):
        loaded(folder(), quantization_config=SluiceConfig("row", modules_to_not_convert=["model", "lm_head"]))


@pytest.mark.parametrize("device_map", [{"": "cpu"}, {"": torch.device("cpu")}, {"model": 0, "lm_head": "cpu"},
                                        {"model": "cuda:0", "lm_head": "disk"}])
def test_a_device_map_off_the_gpu_raises(device_map):
    quantizer = sx.SluiceQuantizer(SluiceConfig("row"), pre_quantized=False)
    with pytest.raises(sluice.InvalidArgument, match=r"device_map puts .* on (cpu|disk) and must put all of it on GPUs.*device_map='cuda'"):
        quantizer.validate_environment(device_map=device_map)
    quantizer.validate_environment(device_map={"": torch.device("cuda:0")})
    quantizer.validate_environment(device_map="auto")
    quantizer.validate_environment(device_map=None)


def test_a_single_device_is_loaded_onto_directly(folder, monkeypatch):
    """Where there is a GPU and no device_map, weights go to that GPU; here its place is taken by the CPU."""
    quantizer = sx.SluiceQuantizer(SluiceConfig("row"), pre_quantized=False)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 3)
    assert quantizer.update_device_map(None) == {"": 3}
    assert quantizer.update_device_map({"": 1}) == {"": 1}
    monkeypatch.undo()
    assert quantizer.update_device_map(None) is None or torch.cuda.is_available()
    path = folder()
    wanted = loaded(path, quantization_config=SluiceConfig("row"))
    monkeypatch.setattr(sx.SluiceQuantizer, "update_device_map", lambda self, device_map: {"": "cpu"})
    same_bits(loaded(path, quantization_config=SluiceConfig("row")), wanted)


def changed(folder, tmp_path, change, recipe="row"):
    """Saves a quantised model, and changes its tensors or its configuration."""
    loaded(folder(), quantization_config=SluiceConfig(recipe)).save_pretrained(tmp_path / "saved")
    path = tmp_path / "saved/model.safetensors"
    state, config = safetensors.torch.load_file(path), json.loads((tmp_path / "saved/config.json").read_text())
    change(state, config["quantization_config"])
    safetensors.torch.save_file(state, path, metadata={"format": "pt"})
    (tmp_path / "saved/config.json").write_text(json.dumps(config))
    return tmp_path / "saved"


UP = "model.layers.0.mlp.up_proj"


def test_a_folder_that_lacks_a_tensor_raises(folder, tmp_path):
    with pytest.raises(sluice.InvalidArgument, match=rf"the folder lacks {UP}.weight_scale"):
        loaded(changed(folder, tmp_path, lambda state, config: state.pop(f"{UP}.weight_scale")))


def test_a_plain_folder_that_lacks_a_weight_raises(folder):
    path = folder()
    state = safetensors.torch.load_file(path / "model.safetensors")
    del state[f"{UP}.weight"]
    safetensors.torch.save_file(state, path / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(sluice.InvalidArgument, match=rf"the folder lacks {UP}.weight_e4m3, or its weight"):
        loaded(path, quantization_config=SluiceConfig("row"))


def test_scales_of_another_shape_raise(folder, tmp_path):
    path = changed(folder, tmp_path, lambda state, config: state.update({f"{UP}.weight_scale": torch.ones(256, 2)}))
    with pytest.raises((sluice.InvalidArgument, RuntimeError), match=rf"{UP}.weight_scale has shape|ignore_mismatched_sizes"):
        loaded(path)


def test_a_blob_of_another_format_raises(folder, tmp_path):
    path = changed(folder, tmp_path, lambda state, config: config.update(scale_type="float16"), "int4")
    with pytest.raises(sluice.InvalidArgument, match=r"weight_format is \[.*\] and must be \["):
        loaded(path)


def test_a_configuration_of_a_newer_sluice_raises(folder, tmp_path):
    with pytest.raises(sluice.InvalidArgument, match=r"takes no 'rotation'.*a newer sluice wrote that"):
        loaded(changed(folder, tmp_path, lambda state, config: config.update(rotation=True)))


def test_another_librarys_folder_is_not_quantised_again(folder):
    path = folder()
    config = json.loads((path / "config.json").read_text())
    config["quantization_config"] = {"quant_method": "gptq", "bits": 4}
    (path / "config.json").write_text(json.dumps(config))
    with pytest.raises(ValueError, match="quantized with GPTQConfig"):
        loaded(path, quantization_config=SluiceConfig("row"))


def test_importing_twice_registers_once():
    import importlib

    before = sx.SluiceConfig
    try:
        assert importlib.reload(sx).SluiceConfig is sx.AUTO_QUANTIZATION_CONFIG_MAPPING["sluice"]
    finally:
        sx.SluiceConfig = sx.AUTO_QUANTIZATION_CONFIG_MAPPING["sluice"] = before
