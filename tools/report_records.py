# SPDX-License-Identifier: Apache-2.0
"""Converts bench records (bench/results/GPU, JSON) to tables with a line per shape: the CSV files in the same
folder. Pages and pictures are made only from the text of these tables.

A time is in a table only if its kernel was checked in that run and was right; the column `failed` lists the
failures. The peer of a dense product is cuBLASLt's fastest algorithm in the race. A column without a value is
empty.
"""
import csv
import functools
import io
import json
import lzma
import pathlib
import re
import subprocess

from triton_record import was_cut

ROOT = pathlib.Path(__file__).resolve().parent.parent
OURS, TUNED, FIRST, PEER, READ = "sluice", "sluice tuned", "cuBLASLt first", "cuBLASLt", "read floor"
OUR_FP8, PEER_FP8, PEER_16 = "sluice FP8", "cuBLASLt FP8", "cuBLASLt 16"
NO_COMMIT = "commit not recorded"
NOT_OF_THE_BENCH = ("certificate.json", "rows.json", "row_torch.json")  # records with tables of their own
KERNELS = ("sluice/device", "sluice/kernels", "sluice/spec")


def read(path: pathlib.Path) -> dict:
    return json.loads(lzma.open(path, "rt").read() if path.suffix == ".xz" else path.read_text())


def records_in(folder: pathlib.Path) -> list[pathlib.Path]:
    """Returns the records of a folder, plain or compressed."""
    return sorted([*folder.glob("*.json"), *folder.glob("*.json.xz")])


def is_drawn(name: str) -> bool:
    """Returns true if a set's problems were drawn at random."""
    return "blind" in name


def set_of(path: pathlib.Path) -> str:
    return path.name.partition(".")[0]


def load(path: pathlib.Path, schema: str) -> dict:
    """Reads a record. A record of another schema is an error."""
    record = read(path)
    if record.get("schema") != schema:
        raise SystemExit(f"{path}: schema is {record.get('schema')!r}, not {schema!r}")
    return record


def commit_of(record: dict) -> str:
    """Returns seven digits, and "-dirty" if the build differed from the commit; "" if the record names no
    commit."""
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


def screened(shape: dict) -> list[dict]:
    """Returns the right candidates that were screened, in the planner's order (the pick first)."""
    return [c for c in shape.get("candidates", []) if "error" not in c and c["verified"] and c["us"] > 0]


def product(shape: dict, name: str, machine: dict) -> dict:
    """Returns the row of a dense product."""
    p, us, ours, candidates = shape["problem"], times_of(shape), ours_of(shape), screened(shape)
    sums = "block-scaled" if "block" in (p["scale_a"], p["scale_b"]) else p["accumulate"]
    peers = [time for contender, time in us.items() if contender.startswith(PEER)]
    return {"set": name, **{key: p[key] for key in ("m", "n", "k", "batch", "a", "b", "d")}, "sums": sums,
            "layouts": f"{p['a_layout']}/{p['b_layout']}", "epilogue": epilogue(p), "planned_by": shape.get("chosen_by", ""),
            "kernel": ours.get("detail", ""), "us": us.get(OURS), "tuned_us": us.get(TUNED), "cublaslt_us": min(peers, default=None),
            "cublaslt_first_us": us.get(FIRST), "cublaslt_algorithms": shape.get("peer_algorithms"), "plain_read_us": us.get(READ),
            "floor_us": round(floor_us(machine, shape, p["a"]), 3) if "flops" in shape else None,
            "tflops": round(shape["flops"] / us[OURS] * 1e-6, 1) if OURS in us else None, "sm_mhz": ours.get("sm_mhz"),
            "candidates": len(candidates) or None, "candidates_failed": (len(shape.get("candidates", [])) - len(candidates)) or None,
            "failed": failures(shape)}


def products(folder: pathlib.Path) -> list[dict]:
    rows = []
    for path in records_in(folder):
        if path.name not in NOT_OF_THE_BENCH:
            run = load(path, "sluice-bench-1")
            rows += [product(shape, set_of(path), run["machine"]) for shape in run["shapes"]]
    return rows


def packed(folder: pathlib.Path) -> list[dict]:
    return packed_rows([path for path in records_in(folder / "packed") if not is_drawn(set_of(path))])


def packed_blind(folder: pathlib.Path) -> list[dict]:
    return packed_rows([path for path in records_in(folder / "packed") if is_drawn(set_of(path))])


def packed_rows(paths: list[pathlib.Path]) -> list[dict]:
    rows = []
    for path in paths:
        for shape in load(path, "sluice-bench-1")["shapes"]:
            p, us = shape["problem"], times_of(shape)
            fp8 = [us[name] for name in (OUR_FP8, PEER_FP8) if name in us]
            rows.append({"set": set_of(path), "m": p["m"], "n": p["n"], "k": p["k"], "tokens": p["x"], "weights": p["weights"],
                         "group": p.get("group"), "d": p.get("d"), "planned_by": shape.get("chosen_by", ""),
                         "kernel": ours_of(shape).get("detail", ""), "us": us.get(OURS), "tuned_us": us.get(TUNED), "fp8_us": min(fp8, default=None), "bits16_us": us.get(PEER_16),
                         "plain_read_us": us.get(READ), "failed": failures(shape)})
    return rows


def chains(folder: pathlib.Path) -> list[dict]:
    return chain_rows(sorted((folder / "chains").glob("*.json")))


def drawn_chains(folder: pathlib.Path) -> list[dict]:
    """Returns the rows of layers of randomly drawn models, without records, compared with the peer: the first
    run of each."""
    first: dict[str, dict[tuple[str, str], list[dict]]] = {}
    for path in sorted((folder / "untuned").glob("*.json.xz")):
        if read(path).get("schema") == "sluice-chain-1":
            for row in chain_rows([path]):
                first.setdefault(row["layer"], {}).setdefault((row["started"], row["file"]), []).append(row)
    runs = [runs[min(runs)] for runs in first.values()]
    return [row for run in runs if any(row["arm"] == PEER for row in run) for row in run]


def chain_rows(paths: list[pathlib.Path]) -> list[dict]:
    """Returns the rows of variants. A variant counts if its bits equal those of its own kernels without
    overlap. The peer always counts."""
    rows = []
    for path in paths:
        run = load(path, "sluice-chain-1")
        for chain in run["chains"]:
            window = chain.get("window") or {}
            for arm in chain["arms"]:
                good = "us_a_layer" in arm and (arm["name"] == PEER or arm.get("differing") == 0)
                rows.append({"file": set_of(path), "started": run.get("started", ""), "layer": chain["name"],
                             **{key: chain.get(key) for key in ("model", "tokens", "weights", "activations")},
                             "projections": int(bool(chain.get("projections"))), "passes": chain.get("passes"), "arm": arm["name"], "us_a_layer": arm["us_a_layer"]["median"] if good else None,
                             "weights_us": round(chain["weight_bytes_a_layer"] / run["peak_tbps"] * 1e-6, 2),
                             "window_us": window.get("us"), "window_before": window.get("before"), "allowed_us": window.get("allowed_us"),
                             "hidden_us": arm.get("hidden_us") if good else None, "replays": arm.get("replays") if good else None,
                             "failed": "" if good else arm.get("error") or "other bits than its own kernels with the overlap off"})
    return rows


def span(step: dict, moments: list[str]) -> dict:
    """Returns a step's times in us of the layer: start of the first CTA, median CTA's return from its wait,
    exit of the last CTA."""
    at = {name: sorted(cta[1 + i] for cta in step["ctas"] if cta[1 + i] is not None) for i, name in enumerate(moments)}
    waited = at["wait_returned"]
    return {"begin_us": at["start"][0] / 1000, "waited_us": waited[len(waited) // 2] / 1000 if waited else None, "end_us": at["exit"][-1] / 1000}


def timelines(folder: pathlib.Path) -> list[dict]:
    """Returns a row per step of a variant: its span, its time since the last exit of the step before, and the
    moments of its median CTA since then."""
    return [{"file": path.stem, "layer": timeline["chain"], "arm": timeline["arm"], "us_a_layer": timeline["us_a_layer"], "step": step["name"],
             "weight_bytes": step["weight_bytes"], **span(step, timeline["moments"]), "took_us": step["took_us"],
             **{f"{moment}_since_us": times[1] for moment, times in step["since"].items()}}
            for path in sorted((folder / "timelines").glob("*.json"))
            for timeline in load(path, "sluice-timeline-1")["timelines"] for step in timeline["steps"]]


def ranges(folder: pathlib.Path) -> list[dict]:
    """Returns a row per layer: few kernels for a range of rows compared with the best kernel per number of
    rows (`sluice rows`)."""
    path, rows = folder / "rows.json", []
    for layer in load(path, "sluice-rows-1")["layers"] if path.exists() else ():
        timed = layer.get("measured", {})
        wrong = [point for point in layer.get("points", ()) if "error" in point or not (point["same"] or point["verified"])]
        rows.append({"layer": layer["name"], "kernels": layer.get("kernels"), "kernels_alone": layer.get("kernels_alone"),
                     "model_mean_loss": layer.get("model", {}).get("mean_loss"), "mean_loss": timed.get("mean_loss"),
                     "worst_loss": timed.get("worst_loss"),
                     "worst_first_call_us": layer.get("first_calls", {}).get("worst_us"), "wrong": len(wrong), "failed": layer.get("error", "")})
    return rows


def triton(folder: pathlib.Path) -> list[dict]:
    """Returns a row per number of rows: the fastest right Triton kernel, and what its search left out."""
    path, rows = folder / "peers" / "triton_sweep.json", []
    for shape in load(path, "sluice-peers-1")["shapes"] if path.exists() else ():
        good, tuning = [c for c in shape["contenders"] if right(c)], shape["tuning"]
        best = min((c for c in good if c["name"].startswith("Triton")), key=lambda c: c["us"]["median"], default=None)
        rows.append({**{key: shape["problem"][key] for key in ("m", "n", "k", "a")}, "triton_us": best and best["us"]["median"],
                     "config": best and best["detail"],
                     "torch_us": next((c["us"]["median"] for c in good if not c["name"].startswith("Triton")), None),
                     "candidates": tuning["candidates"], "timed": tuning["timed"], "refused": tuning["refused"], "wrong": len(tuning["wrong"]), "cut": int(was_cut(tuning))})
    return rows


def int4_peers(folder: pathlib.Path) -> list[dict]:
    """Returns a row per product of int4 weights, compared with vLLM's Marlin and Machete
    (tools/int4_peers.py). A peer that does not support the product has no time."""
    path, rows = folder / "peers" / "int4.json", []
    run = load(path, "sluice-int4-peers-1") if path.exists() else {"shapes": ()}
    for shape in run["shapes"]:
        p, us = shape["problem"], times_of(shape)
        failed = [f"{c['name']}: {c['error']}" for c in shape["contenders"] if "error" in c]
        rows.append({"set": shape["list"], **{key: p[key] for key in ("m", "n", "k", "group", "dtype")}, "planned_by": shape["chosen_by"],
                     "kernel": ours_of(shape).get("detail", ""), "us": us.get(OURS), "marlin_us": us.get("Marlin"), "machete_us": us.get("Machete"),
                     "peer_us": min((us[name] for name in ("Marlin", "Machete") if name in us), default=None),
                     "vllm": run["versions"]["vllm"], "failed": "; ".join(failed)})
    return rows


def row_torch(folder: pathlib.Path) -> list[dict]:
    """Returns a row per product of fp8 with row scales and promoted sums, compared with torch._scaled_mm in
    the same run."""
    path, rows = folder / "row_torch.json", []
    for shape in load(path, "sluice-row-torch-1")["shapes"] if path.exists() else ():
        us = times_of(shape)
        rows.append({**{key: shape["problem"][key] for key in ("m", "n", "k")}, "planned_by": shape.get("chosen_by", ""), "us": us.get(OURS),
                     "torch_us": us.get("torch._scaled_mm"), "failed": failures(shape)})
    return rows


def decoding(folder: pathlib.Path) -> list[dict]:
    """Returns a row per variant, batch and context of a whole model's decoding, without a chain, compared
    with PyTorch."""
    path = folder / "python" / "decode.json"
    return [{key: row.get(key) for key in ("model", "arm", "batch", "context", "tokens_s", "us_layer", "linears_us_layer", "attention_us_layer", "logits_vs_bf16")}
            for row in (json.loads(path.read_text())["rows"] if path.exists() else ())]


def blocks(folder: pathlib.Path) -> list[dict]:
    """Returns a row per number of tokens: a block of a model under torch.compile (examples/llama_block.py).
    """
    rows = []
    for path in sorted((folder / "python").glob("llama_block*.json")):
        for row in json.loads(path.read_text())["rows"]:
            ways = [us for name, us in row.items() if name.startswith("sluice") and name.endswith(" us")]
            rows.append({"file": path.stem, "tokens": row["tokens"], "recipe": row.get("recipe"), "torch_us": row["torch us"], "sluice_us": min(ways),
                         "torch_error": row["torch error"], "sluice_error": row["sluice error"]})
    return rows


def files(folder: pathlib.Path) -> list[dict]:
    """Returns a row per record: its commit, day, method and command. Missing values are empty."""
    rows = []
    for path in sorted([*folder.rglob("*.json"), *folder.rglob("*.json.xz")]):
        record = read(path) if path.name != "certificate.json" else None
        if record is not None:
            method = record.get("method") or {}
            took = sum(part.get("wall_s") or 0 for part in record.get("shapes", record.get("chains", [])))
            gpu = record.get("gpu") or (record.get("machine") or {}).get("gpu")
            rows.append({"file": str(path.relative_to(folder)).removesuffix(".xz"), "commit": commit_of(record), "started": record.get("started"), "gpu": gpu,
                         "rounds": method.get("rounds"), "rest_ms": method.get("rest_ms"), "replay_us": method.get("replay_us"),
                         "candidates": method.get("tune") or None, "seconds": round(took, 1) or None, "command": record.get("command")})
    return rows


TABLES = {"products": products, "packed": packed, "packed_blind": packed_blind, "chains": chains, "drawn_chains": drawn_chains, "timelines": timelines, "ranges": ranges, "triton": triton,
          "int4_peers": int4_peers, "blocks": blocks, "row_torch": row_torch, "decoding": decoding, "files": files}


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


def texts_of(folder: pathlib.Path, more: dict | None = None) -> dict[str, str]:
    """Returns the CSV files of a GPU's folder, by name without extension. `more`: tables of other modules."""
    return {name: text for name, make in (TABLES | (more or {})).items() if (text := text_of(make(folder)))}


def git(*words: str) -> str | None:
    """Returns the output of git; None if it fails."""
    done = subprocess.run(["git", "-C", str(ROOT), *words], capture_output=True, text=True)
    return done.stdout.strip() if done.returncode == 0 else None


@functools.cache
def head() -> str:
    return (git("rev-parse", "--short=7", "HEAD") or NO_COMMIT)[:7]


class CountedAt:
    """The commit from which ages are counted: HEAD when pages are made. A page that is checked names its own.
    """
    commit = ""


def counted_at() -> str:
    return CountedAt.commit or head()


@functools.cache
def commits_between(old: str, new: str, *paths: str) -> int | None:
    """Returns the number of commits between two commits that touch `paths`; None if git does not know them.
    """
    if NO_COMMIT in (old, new):
        return None
    count = git("rev-list", "--count", f"{old}..{new}", *(["--", *paths] if paths else []))
    return int(count) if count else None


def age_words(commit: str) -> str:
    """Returns for example ", 91 commits back (4 touch kernels)", counted from counted_at(); "" if git does
    not know the commit."""
    age, of_kernels = (commits_between(commit.removesuffix("-dirty"), counted_at(), *paths) for paths in ((), KERNELS))
    return "" if age is None else f", {age} commit{'s' * (age != 1)} back ({of_kernels} touch{'es' * (of_kernels == 1)} kernels)"


def drawn_from() -> str:
    """Returns the commit in the first line of the newest random list; "" if it names none."""
    found = re.search(r"\b[0-9a-f]{40}\b", (ROOT / "bench/shapes/blind.txt").read_text().splitlines()[0])
    return found[0] if found else ""


def first_look(commit: str, drawn: str | None = None) -> bool:
    """Returns true if a list was measured with the library from which it was drawn, so that nothing can be
    fitted to it. The list is bench/shapes/blind.txt, or the one of commit `drawn`. The commit that adds the
    list is a later one with the same library."""
    # Git knows neither an unrecorded commit nor one that ends in -dirty.
    drawn = drawn_from() if drawn is None else drawn
    return bool(drawn) and git("diff", "--quiet", drawn, commit, "--", "include", "sluice") is not None
