# SPDX-License-Identifier: Apache-2.0
"""Converts bench records (bench/results/GPU, JSON) to tables with a line per shape: the CSV files in the same
folder. Pages and pictures are made only from the text of these tables.

A time is in a table only if its kernel was checked in that run and was right; the column `failed` lists the
failures. The peer of a dense product is cuBLASLt's fastest algorithm in the race. A column without a value is
empty.
"""
import csv
import io
import json
import pathlib
import re

import result_files

ROOT = pathlib.Path(__file__).resolve().parents[2]
OURS, TUNED, FIRST, PEER, READ = "sluice", "sluice tuned", "cuBLASLt first", "cuBLASLt", "read floor"
CUDNN = ("cuDNN first", "cuDNN best", "cuDNN same bits")
SWEEP = "wgrad_sweep"  # every plan tried, which docs/tuning-wgrad.md tells of
OUR_FP8, PEER_FP8, PEER_16 = "sluice FP8", "cuBLASLt FP8", "cuBLASLt 16"
NO_COMMIT = "commit not recorded"
NOT_OF_THE_BENCH = ("certificate", "rows", "row_torch")  # they have tables of their own


def is_drawn(name: str) -> bool:
    """Returns true if a set's problems were drawn at random."""
    return "blind" in name


def load(path: pathlib.Path, schema: str) -> dict:
    """A record; {} if there is none. One of another schema is an error."""
    record = json.loads(result_files.text_of(path) or "{}")
    if record and record.get("schema") != schema:
        raise SystemExit(f"{path}: schema is {record.get('schema')!r}, not {schema!r}")
    return record


def bench_shapes(folder: pathlib.Path, takes=lambda name: True) -> list[tuple[str, dict, dict]]:
    """(set, machine, shape) of the records of `sluice bench` in a folder; `takes`: whether a set is wanted."""
    runs = ((path.stem, load(path, "sluice-bench-1")) for path in result_files.files(folder, "*.json") if takes(path.stem))
    return [(name, run["machine"], shape) for name, run in runs for shape in run["shapes"]]


def commit_of(record: dict) -> str:
    """Returns seven digits, and "-dirty" if the build differed from the commit; "" if the record names no commit."""
    found = re.fullmatch(r"([0-9a-f]{7})[0-9a-f]{0,33}(-dirty)?", str(record.get("commit") or ""))
    return found[1] + (found[2] or "") if found else NO_COMMIT


def right(contender: dict) -> bool:
    return "error" not in contender and "refused" not in contender and contender["verified"] and contender["us"]["median"] > 0


def times_of(shape: dict) -> dict[str, float]:
    """Returns the median us by contender, for contenders that were right."""
    return {c["name"]: c["us"]["median"] for c in shape.get("contenders", []) if right(c)}


def failures(shape: dict) -> str:
    found = [shape["error"]] if "error" in shape else []
    for c in shape.get("contenders", []):
        if not right(c):
            verdict = (c.get("verdict") or "not checked").splitlines()[0]
            found.append(f"{c['name']}: {c['error'] if 'error' in c else f'wrong: {verdict}'}")
    return "; ".join(found)


def epilogue(problem: dict) -> str:
    """Returns text for the features of a product that have no column of their own."""
    words = ["bias"] if problem["bias"] else []
    words += [problem["activation"]] if problem["activation"] != "none" else []
    words += ["residual"] if problem.get("residual") else []
    words += ["added" if problem.get("deterministic", True) else "added in any order"] if problem.get("update") == "add" else []
    return " + ".join(words)


def floor_us(machine: dict, shape: dict, kind: str) -> float:
    """Returns the longer of two times: bytes that must move once, at HBM's rate; flops at the sustained rate
    of the tensor cores."""
    peak = machine["fp16_peak_tflops" if kind in ("bf16", "fp16") else "fp8_peak_tflops"]
    return max(shape["bytes"] / machine["hbm_gbps"] * 1e-3, shape["flops"] / peak * 1e-6)


def ours_of(shape: dict) -> dict:
    return next((c for c in shape.get("contenders", []) if c["name"] == OURS and right(c)), {})


def own(shape: dict, us: dict[str, float]) -> dict:
    """How our kernel was chosen, which it is, and its time."""
    return {"planned_by": shape.get("chosen_by", ""), "kernel": ours_of(shape).get("detail", ""), "us": us.get(OURS)}


def screened(shape: dict) -> list[dict]:
    """Returns the right candidates that were screened, in the planner's order (the pick first)."""
    return [c for c in shape.get("candidates", []) if "error" not in c and c["verified"] and c["us"] > 0]


def tflops(shape: dict, us: dict[str, float]) -> float | None:
    return round(shape.get("flops", 0) / us[OURS] * 1e-6, 1) if OURS in us else None


def product(name: str, machine: dict, shape: dict) -> dict:
    """A line of a dense product."""
    p, us, candidates = shape["problem"], times_of(shape), screened(shape)
    sums = "block-scaled" if "block" in (p["scale_a"], p["scale_b"]) else p["accumulate"]
    return {"set": name, **{key: p[key] for key in ("m", "n", "k", "batch", "a", "b", "d")}, "sums": sums,
            "layouts": f"{p['a_layout']}/{p['b_layout']}", "epilogue": epilogue(p), **own(shape, us), "tuned_us": us.get(TUNED),
            "cublaslt_us": min((time for contender, time in us.items() if contender.startswith(PEER)), default=None),
            "cublaslt_first_us": us.get(FIRST), "cublaslt_algorithms": shape.get("peer_algorithms"), "plain_read_us": us.get(READ),
            "floor_us": round(floor_us(machine, shape, p["a"]), 3) if "flops" in shape else None,
            "tflops": tflops(shape, us), "sm_mhz": ours_of(shape).get("sm_mhz"),
            "candidates": len(candidates) or None, "candidates_failed": (len(shape.get("candidates", [])) - len(candidates)) or None,
            "failed": failures(shape)}


def products(folder: pathlib.Path) -> list[dict]:
    return [product(*one) for one in bench_shapes(folder, lambda name: name not in NOT_OF_THE_BENCH)]


def packed(folder: pathlib.Path, drawn: bool = False) -> list[dict]:
    """`drawn`: the random products, which have a table of their own."""
    rows = []
    for name, _, shape in bench_shapes(folder / "packed", lambda name: is_drawn(name) == drawn):
        p, us = shape["problem"], times_of(shape)
        rows.append({"set": name, "m": p["m"], "n": p["n"], "k": p["k"], "tokens": p["x"], "weights": p["weights"], "group": p.get("group"), "d": p.get("d"),
                     **own(shape, us), "tuned_us": us.get(TUNED), "fp8_us": min((us[name] for name in (OUR_FP8, PEER_FP8) if name in us), default=None),
                     "bits16_us": us.get(PEER_16), "plain_read_us": us.get(READ), "failed": failures(shape)})
    return rows


def chains(folder: pathlib.Path) -> list[dict]:
    return [row for path in result_files.files(folder / "chains", "*.json") for row in chain_rows(path)]


def drawn_chains(folder: pathlib.Path) -> list[dict]:
    """Returns the rows of layers of randomly drawn models, without records, compared with the peer: the first
    run of each."""
    first: dict[str, dict[tuple[str, str], list[dict]]] = {}
    for path in (path for path in result_files.files(folder / "untuned", "*.json") if not is_drawn(path.stem)):  # a drawn list is of the bench
        for row in chain_rows(path):
            first.setdefault(row["layer"], {}).setdefault((row["started"], row["file"]), []).append(row)
    runs = [runs[min(runs)] for runs in first.values()]
    return [row for run in runs if any(row["arm"] == PEER for row in run) for row in run]


def chain_rows(path: pathlib.Path) -> list[dict]:
    """Lines of arms. An arm counts if its bits equal those of its own kernels with the overlap off; the peer
    always counts."""
    rows, run = [], load(path, "sluice-chain-1")
    for chain in run["chains"]:
        window = chain.get("window") or {}
        for arm in chain["arms"]:
            good = "us_a_layer" in arm and (arm["name"] == PEER or arm.get("differing") == 0)
            rows.append({"file": path.stem, "started": run.get("started", ""), "layer": chain["name"],
                         **{key: chain.get(key) for key in ("model", "tokens", "weights", "activations")},
                         "projections": int(bool(chain.get("projections"))), "passes": chain.get("passes"), "arm": arm["name"],
                         "us_a_layer": arm["us_a_layer"]["median"] if good else None,
                         "weights_us": round(chain["weight_bytes_a_layer"] / run["peak_tbps"] * 1e-6, 2),
                         "window_us": window.get("us"), "window_before": window.get("before"), "allowed_us": window.get("allowed_us"),
                         "hidden_us": arm.get("hidden_us") if good else None, "replays": arm.get("replays") if good else None,
                         "failed": "" if good else arm.get("error") or "other bits than its own kernels with the overlap off"})
    return rows


def ranges(folder: pathlib.Path) -> list[dict]:
    """One line per layer: few kernels for a range of rows beside a kernel for each number of rows (`sluice_lab rows`)."""
    rows = []
    for layer in load(folder / "rows.json", "sluice-rows-1").get("layers", ()):
        timed = layer.get("measured", {})
        wrong = [point for point in layer.get("points", ()) if "error" in point or not (point["same"] or point["verified"])]
        rows.append({"layer": layer["name"], "kernels": layer.get("kernels"), "kernels_alone": layer.get("kernels_alone"),
                     "model_mean_loss": layer.get("model", {}).get("mean_loss"), "mean_loss": timed.get("mean_loss"),
                     "worst_loss": timed.get("worst_loss"),
                     "worst_first_call_us": layer.get("first_calls", {}).get("worst_us"), "wrong": len(wrong), "failed": layer.get("error", "")})
    return rows


def int4_peers(folder: pathlib.Path) -> list[dict]:
    """A line a product of int4 weights beside vLLM's Marlin and Machete (tools/int4_peers.py). A peer that
    does not take the product has no time."""
    rows, run = [], load(folder / "peers" / "int4.json", "sluice-int4-peers-1")
    for shape in run.get("shapes", ()):
        p, us = shape["problem"], times_of(shape)
        failed = [f"{c['name']}: {c['error']}" for c in shape["contenders"] if "error" in c]
        rows.append({"set": shape["list"], **{key: p[key] for key in ("m", "n", "k", "group", "dtype")}, **own(shape, us),
                     "marlin_us": us.get("Marlin"), "machete_us": us.get("Machete"),
                     "peer_us": min((us[name] for name in ("Marlin", "Machete") if name in us), default=None),
                     "vllm": run["versions"]["vllm"], "failed": "; ".join(failed)})
    return rows


def row_torch(folder: pathlib.Path) -> list[dict]:
    """A line a product of fp8 with row scales and promoted sums beside torch._scaled_mm, each run with both."""
    rows = []
    for shape in load(folder / "row_torch.json", "sluice-row-torch-1").get("shapes", ()):
        us = times_of(shape)
        rows.append({**{key: shape["problem"][key] for key in ("m", "n", "k")}, "planned_by": shape.get("chosen_by", ""), "us": us.get(OURS),
                     "torch_us": us.get("torch._scaled_mm"), "failed": failures(shape)})
    return rows


def layer_of(conv: dict) -> str:
    """"64>128, 28 px, 3x3/2" for 64 channels and 128 filters."""
    sizes, stride = conv["size"], conv["stride"]
    pixels = str(sizes[0]) if len(set(sizes)) == 1 else "x".join(map(str, sizes))
    step = "" if set(stride) == {1} else f"/{stride[0]}" if len(set(stride)) == 1 else "/" + "x".join(map(str, stride))
    return f"{conv['channels']}>{conv['filters']}, {pixels} px, {'x'.join(map(str, conv['filter']))}{step}"


def convolutions(folder: pathlib.Path) -> list[dict]:
    """Returns one row per layer and operation."""
    rows = []
    for name, _, shape in bench_shapes(folder / "conv", lambda name: name != SWEEP and not is_drawn(name)):
        conv, us = shape["convolution"], times_of(shape)
        rows.append({"set": name, "op": conv["op"], "images": conv["images"], "layer": layer_of(conv), "d": shape["problem"]["d"],
                     "update": shape["problem"].get("update", "set"), **own(shape, us), "tuned_us": us.get(TUNED),
                     "cudnn_us": min((us[peer] for peer in CUDNN if peer in us), default=None), "cudnn_first_us": us.get(CUDNN[0]),
                     "cudnn_same_bits_us": us.get(CUDNN[2]), "cudnn_plans": shape.get("peer_algorithms"), "tflops": tflops(shape, us),
                     "failed": failures(shape)})
    return rows


def python_rows(folder: pathlib.Path, pattern: str) -> list[tuple[str, dict]]:
    """(file, row) of what scripts in Python measured."""
    return [(path.stem, row) for path in result_files.files(folder / "python", pattern) for row in json.loads(result_files.text_of(path))["rows"]]


def decoding(folder: pathlib.Path) -> list[dict]:
    """A line an arm, model, batch and context of decoding (bench/decode/arms.py)."""
    keys = ("model", "arm", "batch", "context", "tokens_s", "us_layer", "us_fixed", "hbm_share", "over_parts", "logits_vs_bf16")
    return [{key: row.get(key) for key in keys} for _, row in python_rows(folder, "decode_arms*.json")]


def blocks(folder: pathlib.Path) -> list[dict]:
    """Returns a row per number of tokens: a block of a model under torch.compile (examples/llama_block.py)."""
    rows = []
    for file, row in python_rows(folder, "llama_block*.json"):
        ways = [us for name, us in row.items() if name.startswith("sluice") and name.endswith(" us")]
        rows.append({"file": file, "tokens": row["tokens"], "recipe": row.get("recipe"), "torch_us": row["torch us"], "sluice_us": min(ways),
                     "torch_error": row["torch error"], "sluice_error": row["sluice error"]})
    return rows


def files(folder: pathlib.Path) -> list[dict]:
    """Returns a row per record: its commit, day, method and command. Missing values are empty."""
    rows = []
    for path in result_files.files(folder, "**/*.json"):
        if path.name != "certificate.json":
            record = json.loads(result_files.text_of(path))
            record = record.get("run", {}) | record
            method = record.get("method") or {}
            took = sum(part.get("wall_s") or 0 for part in record.get("shapes", record.get("chains", [])))
            gpu = record.get("gpu") or (record.get("machine") or {}).get("gpu")
            rows.append({"file": str(path.relative_to(folder)), "commit": commit_of(record), "started": record.get("started"), "gpu": gpu,
                         "rounds": method.get("rounds"), "rest_ms": method.get("rest_ms"), "replay_us": method.get("replay_us"),
                         "candidates": method.get("tune") or None, "seconds": round(took, 1) or None, "command": record.get("command")})
    return rows


TABLES = {"products": products, "packed": packed, "packed_blind": lambda folder: packed(folder, drawn=True), "chains": chains, "drawn_chains": drawn_chains, "ranges": ranges,
          "int4_peers": int4_peers, "blocks": blocks, "row_torch": row_torch, "decoding": decoding, "files": files, "convolutions": convolutions}


def text_of(rows: list[dict]) -> str:
    """Returns the rows as CSV; "" if there are none."""
    if not rows:
        return ""
    text = io.StringIO()
    writer = csv.DictWriter(text, list(dict.fromkeys(key for row in rows for key in row)), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def value_of(word: str | None) -> float | str | None:
    """Returns the cell's value, a number if it is one; None for an empty cell."""
    if not word:
        return None
    return float(word) if re.fullmatch(r"-?\d+(\.\d+)?(e-?\d+)?", word) else word


def parsed(text: str) -> list[dict]:
    return [{key: value if key in ("commit", "set", "file") else value_of(value) for key, value in row.items()}
            for row in csv.DictReader(io.StringIO(text))]


def texts_of(folder: pathlib.Path) -> dict[str, str]:
    """The CSV files of a GPU's folder, by name without ending."""
    return {name: text for name, make in TABLES.items() if (text := text_of(make(folder)))}


class Data:
    """The tables of one GPU, read from the text of its CSV files."""

    def __init__(self, texts: dict[str, str], folder: str = ""):
        self.texts, self.folder = texts, folder
        self.tables = {name: parsed(text) for name, text in texts.items()}

    def rows(self, table: str, sets: tuple[str, ...] = ()) -> list[dict]:
        return [row for row in self.tables.get(table, []) if not sets or row["set"] in sets]

    def commit(self, file: str) -> str:
        return next((row["commit"] for row in self.rows("files") if row["file"] == f"{file}.json"), NO_COMMIT)

    def gpu(self) -> str:
        return next((row["gpu"] for row in self.rows("files") if row["gpu"]), "a GPU that is not recorded")
