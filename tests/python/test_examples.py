# SPDX-License-Identifier: Apache-2.0
"""Runs examples/*.py without a GPU, with torch's own products. Checkpoint files are made by hand."""
import importlib.util
import json
import struct
import subprocess
import sys

import pytest

torch = pytest.importorskip("torch")

import sluice  # noqa: E402
import sluice.torch as st  # noqa: E402
from weight_layouts import Layer, awq, compressed_tensors, gptq  # noqa: E402


@pytest.fixture
def example(source_root):
    def load(name):
        spec = importlib.util.spec_from_file_location(name, source_root / "examples" / f"{name}.py")
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module

    return load


@pytest.mark.parametrize("name, arguments, mention", [
    ("first", [], "examples/first.py needs a Hopper GPU"), ("train", [], "examples/train.py needs a Hopper GPU"),
    ("llama_block", [], "examples/llama_block.py needs a Hopper GPU"),
    ("load_checkpoint", ["no/such/folder"], "no/such/folder: no config.json is there"),
    ("load_checkpoint", ["FOLDER"], "no *.safetensors is there"),
    ("load_checkpoint", ["FOLDER", "--device", "cuda"], "--device cuda: torch finds no GPU"),
])
def test_an_example_that_cannot_run_says_one_line(source_root, tmp_path, name, arguments, mention):
    if torch.cuda.is_available():
        pytest.skip("there is a GPU")
    (tmp_path / "config.json").write_text(json.dumps({"quantization_config": KINDS["gptq"][0]}))
    if "--device" in arguments:
        write_safetensors(tmp_path / "model.safetensors", {})
    arguments = [str(tmp_path) if argument == "FOLDER" else argument for argument in arguments]
    done = subprocess.run([sys.executable, str(source_root / "examples" / f"{name}.py"), *arguments], capture_output=True, text=True,
                          check=False)
    lines = [line for line in done.stderr.splitlines() if "NumPy" not in line]
    assert done.returncode == 1 and len(lines) == 1 and mention in lines[0], done.stderr


def test_the_first_program_prints_what_its_text_says(example, monkeypatch, capsys):
    first = example("first")
    monkeypatch.setattr(st, "linear", torch.nn.functional.linear)
    monkeypatch.setattr(st, "packed_mm", lambda x, packed: x @ sluice.weights.dequantize(packed.quantized()).to(x.dtype).t())
    first.main("cpu")
    printed = capsys.readouterr().out
    promised = [line.strip() for line in first.__doc__.splitlines() if line.startswith("    ")]
    assert len(promised) == 2 and printed.splitlines()[-2:] == promised
    assert "problem" in printed and "16" in printed


def test_the_training_loop_learns_in_fp32(example, monkeypatch, capsys):
    """Replaces the kernels by products of torch, which add to main_grad as sluice does."""
    train = example("train")

    class Linear(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, weight, bias):
            ctx.save_for_backward(x, weight)
            ctx.weight = weight
            return torch.nn.functional.linear(x, weight, bias)

        @staticmethod
        def backward(ctx, grad):
            x, weight = ctx.saved_tensors
            ctx.weight.main_grad += grad.t().float() @ x.float()
            return grad @ weight, None, grad.sum(0)

    monkeypatch.setattr("sluice.torch.linear_layer.linear", lambda x, weight, bias, **_: Linear.apply(x, weight, bias))
    losses = train.train(60, width=32, batch=64, device="cpu")
    assert losses[-1] < losses[0] / 3
    assert "step 59: loss" in capsys.readouterr().out


def write_safetensors(path, tensors):
    names = {torch.int32: "I32", torch.int64: "I64", torch.float16: "F16", torch.bfloat16: "BF16"}
    head, body = {"__metadata__": {"format": "pt"}}, b""
    for name, tensor in tensors.items():
        raw = tensor.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes() if tensor.numel() else b""
        head[name] = {"dtype": names[tensor.dtype], "shape": list(tensor.shape), "data_offsets": [len(body), len(body) + len(raw)]}
        body += raw
    text = json.dumps(head).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + body)


def checkpoint(folder, config, tensors):
    (folder / "config.json").write_text(json.dumps({"hidden_size": 128, "quantization_config": config}))
    half = len(tensors) // 2  # two files, as large checkpoints have several
    for i, part in enumerate((dict(list(tensors.items())[:half]), dict(list(tensors.items())[half:]))):
        write_safetensors(folder / f"model-{i}.safetensors", part)


def as_tensors(values, types):
    return [torch.tensor(value, dtype=kind) for value, kind in zip(values, types)]


KINDS = {
    "gptq": ({"quant_method": "gptq", "bits": 4, "group_size": 32, "sym": False, "checkpoint_format": "gptq"}, gptq,
             {"qweight": torch.int32, "qzeros": torch.int32, "scales": torch.float16}),
    "awq": ({"quant_method": "awq", "bits": 4, "group_size": 32, "version": "gemm"}, awq,
            {"qweight": torch.int32, "qzeros": torch.int32, "scales": torch.float16}),
    "compressed-tensors": (
        {"quant_method": "compressed-tensors", "format": "pack-quantized",
         "config_groups": {"group_0": {"targets": ["Linear"], "weights": {"num_bits": 4, "group_size": 32, "symmetric": False}}}},
        compressed_tensors,
        {"weight_packed": torch.int32, "weight_scale": torch.bfloat16, "weight_shape": torch.int64, "weight_zero_point": torch.int32}),
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_checkpoint_folder_becomes_layers(example, tmp_path, capsys, monkeypatch, kind):
    config, write, parts = KINDS[kind]
    layers = {f"model.layers.{i}.mlp.up_proj": Layer(64, 128, 32, seed=i) for i in range(2)}
    tensors = {"model.norm.weight": torch.ones(3, dtype=torch.float16)}  # 6 bytes, so that the next tensor is not aligned
    for name, layer in layers.items():
        for part, tensor in zip(parts, as_tensors(write(layer), parts.values())):
            tensors[f"{name}.{part}"] = tensor
        tensors[f"{name}.bias"] = torch.arange(64, dtype=torch.float16)
    checkpoint(tmp_path, config, tensors)
    load = example("load_checkpoint")
    found = load.layers_of(tmp_path)
    assert list(found) == sorted(layers)
    for name, layer in layers.items():
        weight = sluice.weights.dequantize(found[name].packed.quantized())
        assert torch.equal(weight, torch.tensor(layer.matrix(), dtype=weight.dtype))
        assert torch.equal(found[name].bias, torch.arange(64, dtype=torch.float16))
    monkeypatch.setattr("sys.argv", ["load_checkpoint.py", str(tmp_path), "--device", "cpu"])
    load.main()
    assert "model.layers.1.mlp.up_proj: <sluice.PackedWeights 64x128, uint4 by 32" in capsys.readouterr().out


@pytest.mark.parametrize("change, mention", [
    (dict(quant_method="bitsandbytes"), "'bitsandbytes' is none of gptq, awq, compressed-tensors"),
    (dict(quant_method="awq", version="gemv"), '"gemm"'),
    (dict(quant_method="compressed-tensors", format="float-quantized"), '"pack-quantized"'),
])
def test_other_checkpoints_are_refused_by_name(example, tmp_path, change, mention):
    tensors = {"a.qweight": torch.zeros(1, 1, dtype=torch.int32), "a.weight_packed": torch.zeros(1, 1, dtype=torch.int32)}
    checkpoint(tmp_path, change, tensors)
    with pytest.raises(SystemExit) as caught:
        example("load_checkpoint").layers_of(tmp_path)
    assert mention in str(caught.value)
