# SPDX-License-Identifier: Apache-2.0
"""Loads the quantised linears of a checkpoint folder (config.json and *.safetensors) into layers of sluice: GPTQ, AWQ and
compressed-tensors ("pack-quantized"). Needs torch and sluice; a GPU only to run the layers.

    python examples/load_checkpoint.py FOLDER [--device cuda]

prints one line per layer. `layers_of(folder)` returns the layers by name, for use in your own model.
"""
import argparse
import json
import mmap
import pathlib

import torch

import sluice.torch as st
from sluice import weights as sw

# The names of types in safetensors files.
TYPES = {"F16": torch.float16, "BF16": torch.bfloat16, "F32": torch.float32, "I32": torch.int32, "I64": torch.int64,
         "I8": torch.int8, "U8": torch.uint8}


def tensors_of(path: pathlib.Path) -> dict:
    """Returns the tensors of one file by name. The file has 8 bytes with the JSON's length, the JSON, and the tensors' bytes."""
    with open(path, "rb") as file:
        memory = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)  # read on use; writes stay in memory
    start = 8 + int.from_bytes(memory[:8], "little")
    found = {}
    for name, entry in json.loads(memory[8:start]).items():
        if name == "__metadata__" or entry["dtype"] not in TYPES:
            continue
        first, last = entry["data_offsets"]
        flat = torch.frombuffer(memory, dtype=torch.uint8, offset=start + first, count=last - first) if last > first else \
            torch.empty(0, dtype=torch.uint8)
        # A view needs an aligned start; tensors at other offsets are copied.
        aligned = flat if (start + first) % 8 == 0 else flat.clone()
        found[name] = aligned.view(TYPES[entry["dtype"]]).reshape(entry["shape"])
    return found


def gptq(config: dict, t: dict) -> sw.QuantizedWeights:
    return sw.from_gptq(t["qweight"], t["qzeros"], t["scales"], t.get("g_idx"), bits=config["bits"], group=config["group_size"],
                        checkpoint_format=config.get("checkpoint_format", "gptq"), symmetric=config.get("sym"))


def awq(config: dict, t: dict) -> sw.QuantizedWeights:
    if config.get("version", "gemm").lower() != "gemm":
        raise SystemExit(f"AWQ version {config['version']!r} is not \"gemm\", the one that is read here")
    return sw.from_awq(t["qweight"], t["qzeros"], t["scales"], group=config["group_size"])


def compressed_tensors(config: dict, t: dict) -> sw.QuantizedWeights:
    if config.get("format") != "pack-quantized":
        raise SystemExit(f"compressed-tensors format {config.get('format')!r} is not \"pack-quantized\", the one that is read here")
    weights = next(iter(config["config_groups"].values()))["weights"]
    return sw.from_compressed_tensors(t["weight_packed"], t["weight_scale"], t["weight_shape"], t.get("weight_zero_point"),
                                      t.get("weight_g_idx"), bits=weights["num_bits"], group=weights.get("group_size") or -1)


# Maps each quant_method to its reader, and to the name of the tensor that marks a quantised layer.
READERS = {"gptq": (gptq, "qweight"), "awq": (awq, "qweight"), "compressed-tensors": (compressed_tensors, "weight_packed")}


def layers_of(folder: pathlib.Path, device: str = "cpu") -> dict:
    """Maps the name of each quantised linear to a `LinearPacked` with its weights, packed on `device`."""
    if not (folder / "config.json").is_file():
        raise SystemExit(f"{folder}: no config.json is there: give the folder of a checkpoint, as `hf download` makes it")
    config = json.loads((folder / "config.json").read_text(encoding="utf-8")).get("quantization_config") or {}
    if config.get("quant_method") not in READERS:
        raise SystemExit(f"{folder}/config.json: quant_method {config.get('quant_method')!r} is none of {', '.join(READERS)}")
    if not any(folder.glob("*.safetensors")):
        raise SystemExit(f"{folder}: no *.safetensors is there: give the folder that holds the weights, too")
    if torch.device(device).type == "cuda" and not torch.cuda.is_available():
        raise SystemExit(f"--device {device}: torch finds no GPU; --device cpu packs the weights in host memory")
    read, mark = READERS[config["quant_method"]]
    tensors: dict = {}
    for path in sorted(folder.glob("*.safetensors")):
        tensors.update(tensors_of(path))
    layers = {}
    for name in sorted(key[:-len(mark) - 1] for key in tensors if key.endswith("." + mark)):
        own = {key[len(name) + 1:]: value.to(device) for key, value in tensors.items() if key.startswith(name + ".")}
        layers[name] = st.nn.LinearPacked.from_quantized(read(config, own), own.get("bias"))
    return layers


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    arguments = parser.parse_args()
    for name, layer in layers_of(arguments.folder, arguments.device).items():
        print(f"{name}: {layer.packed}")


if __name__ == "__main__":
    main()
