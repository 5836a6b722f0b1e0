# SPDX-License-Identifier: Apache-2.0
"""bench/decode on the CPU, with tiny models: every arm runs and computes the model, and a wrong scale is found. Needs torch; transformers
and torchao where their arms are tested."""
import json
import os
import pathlib
import subprocess
import sys

import pytest

torch = pytest.importorskip("torch")
ROOT = pathlib.Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "bench/decode/arms.py"
for folder in ("tools", "bench/decode"):
    sys.path.insert(0, str(ROOT / folder))
pytest.importorskip("triton", reason="sluice.torch.override and the attention kernel need it")

import agree  # noqa: E402
import arms  # noqa: E402
import attend  # noqa: E402
import cell  # noqa: E402
import clocks  # noqa: E402
import host  # noqa: E402
import layers  # noqa: E402
import models  # noqa: E402
import recipes  # noqa: E402
from record import Record  # noqa: E402

BY_NAME = {arm.name: arm for arm in arms.ARMS}
OWN = [name for name, arm in BY_NAME.items() if hasattr(arm, "build") and "torchao" not in name]
COUNTS = (2, 4)


@pytest.fixture(autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    with host.on_host():
        yield
    torch.set_num_threads(before)
    attend.CALLS.clear()
    torch._dynamo.reset()


def model_of(name, layers=4, context=8):
    made = models.Model(name, layers, 40, "cpu")
    agree.calibrate(made, context)
    return made


@pytest.fixture(scope="module", params=["tiny-llama", "tiny-qwen"])
def model(request):
    return model_of(request.param)


def logits_of(arm, model, state, count=2, context=8):
    state.begin(context)
    with arm.scope(), torch.no_grad():
        body = arm.build(model, state).hidden(count)
        state.begin(context)
        return torch.nn.functional.linear(body(), model.head)


def run(tmp_path, *arguments, out="arms.json"):
    status = arms.main(["--cpu", "--layers", "1,2", "--batches", "1", "--contexts", "8", "--out", str(tmp_path / out), *arguments])
    return status, json.loads((tmp_path / out).read_text())


# ---- the arms compute the model
@pytest.mark.parametrize("batch", [1, 9])  # packed products norm their input up to 8 rows
@pytest.mark.parametrize("name", OWN)
def test_every_arm_computes_the_model(model, name, batch):
    arm, state = BY_NAME[name], models.State(model, batch)
    state.begin(8)
    verdict = agree.Judge(model, state, 2).judge(arm.accuracy, arm.kind, logits_of(arm, model, state))
    assert verdict["logits_vs_bf16"] > 0 or name == "bf16"


@pytest.mark.parametrize("by", ["row", "tensor"])
@pytest.mark.parametrize("product", models.PRODUCTS)
def test_a_scale_that_is_a_quarter_off_in_one_product_is_found(by, product):
    model = model_of("tiny-llama", 2)
    state, arm = models.State(model, 4), BY_NAME[f"chain_{by}_tuned"]
    state.begin(8)
    judge = agree.Judge(model, state, 2)
    judge.judge(arm.accuracy, arm.kind, logits_of(arm, model, state))
    packed = model.packed(arm.kind, layers.WEIGHTS[by].pack)[1]
    packed[product] = (packed[product][0], packed[product][1] * 1.25, *packed[product][2:])
    with pytest.raises(ArithmeticError, match="logits of 2 layers are .* from bf16's"):
        judge.judge(arm.accuracy, arm.kind, logits_of(arm, model, state))


def test_gate_and_up_exchanged_are_found_in_int4():
    model = model_of("tiny-llama", 2)
    state, arm = models.State(model, 4), BY_NAME["sluice_ops_int4"]
    state.begin(8)
    judge, gate_up = agree.Judge(model, state, 2), model.weights[1]["gate_up"]
    model.weights[1]["gate_up"] = torch.cat(gate_up.chunk(2)[::-1])
    with pytest.raises(ArithmeticError, match="from bf16's, and int4 may be"):
        judge.judge(arm.accuracy, arm.kind, logits_of(arm, model, state))


def test_twins_and_nan_are_judged(model):
    state = models.State(model, 2)
    state.begin(8)
    judge = agree.Judge(model, state, 2)
    assert judge.judge("int4", "int4", judge.wanted)["logits_vs_twin"] == 0
    noise = torch.randn_like(judge.wanted.float()) * judge.wanted.float().std() * 0.05
    with pytest.raises(ArithmeticError, match="another arm with the same weights"):
        judge.judge("int4", "int4", judge.wanted.float() + noise)
    with pytest.raises(ArithmeticError, match="nan from bf16's"):
        judge.judge("bf16", "bf16", judge.wanted * torch.nan)


@pytest.mark.parametrize("name", ["tiny-llama", "tiny-qwen"])
def test_transformers_computes_the_same_model(name):
    pytest.importorskip("transformers")
    model = model_of(name)
    state = models.State(model, 3)
    for arm in ("hf_eager", "hf_static"):
        state.begin(8)
        judge = agree.Judge(model, state, 2)
        us, logits = BY_NAME[arm].measure(model, state, 8, (1, 2), windows=1)
        assert set(us) == {1, 2} and judge.judge("bf16", "bf16", logits)["logits_vs_bf16"] > 0
    model.rotary = model.rotary[1], model.rotary[0]  # transformers' rotation is its own
    state.begin(8)
    with pytest.raises(ArithmeticError):
        agree.Judge(model, state, 2).judge("bf16", "bf16", logits)


def test_the_kernel_computes_the_attention_of_the_definition():
    code = """
import sys; sys.path[:0] = sys.argv[1:]
import test_attention  # repairs the interpreter
import torch, attend, models
torch.set_num_threads(1)
torch.manual_seed(0)
for name, scale in (("tiny-llama", None), ("tiny-qwen", torch.tensor(0.01))):
    model = models.Model(name, 1, 8, "cpu"); state = models.State(model, 2); state.begin(5)
    ours = attend.Attention(model, state, dependent=False)
    assert ours.kernel is not None
    qkv = torch.randn(2, model.sizes.shape("qkv")[0]).bfloat16()
    out, caches = ours.new_out(scale is not None), [c.clone() for c in state.caches[0]]
    ours(qkv, *state.caches[0], out, *model.head_norms[0], scale)
    wanted = attend.defined(model, state, qkv, *caches, *model.head_norms[0], scale)
    error = (out.float() - wanted.float()).norm() / wanted.float().norm()
    assert out.dtype is wanted.dtype and error < 0.02, error
    for mine, theirs in zip(state.caches[0], caches):
        assert torch.allclose(mine.float(), theirs.float(), atol=1e-3, rtol=0.01)  # one rounding
"""
    done = subprocess.run([sys.executable, "-c", code, *(str(ROOT / folder) for folder in ("tools", "bench/decode", "tests/python"))],
                          capture_output=True, text=True,
                          env={**os.environ, "TRITON_INTERPRET": "1", "OMP_NUM_THREADS": "1"}, check=False)
    assert done.returncode == 0, done.stderr


# ---- chains
def test_a_chain_has_a_gap_per_layer_and_its_promises():
    model = model_of("tiny-llama", 3)
    state = models.State(model, 2)
    launches = {"row": 8, "tensor": 6, "int4": 4, "bf16": 6}
    for name, arm in BY_NAME.items():
        if name.startswith("chain_"):
            chain = arm.build(model, state).chain(3)
            early = not name.endswith(("off", "ordinary"))
            assert chain.parts == 4 and all((gap.waits, gap.triggers) == (early, early) for gap in chain.steps.gaps), name
            assert sum(map(len, chain.names())) == 3 * launches[arm.by] + 1, name  # and the last norm
            assert chain.overlap == {"off": "off", "untuned": "weights_first", "ordinary": "weights_first"}.get(arm.overlap, "tuned")
            out = {tensor.data_ptr() for gap in chain.steps.gaps for tensor in gap.writes[2:]}
            assert len(out) == 1, "layers share the buffers"


def test_layers_share_buffers_and_a_sum_is_not_its_own_residual():
    class Steps:
        def __init__(self):
            self.calls = []

        def rms_norm(self, input, gamma, *, name, residual=None, sum=None, out=None):
            self.calls.append((residual, sum, out))
            return (input.clone() if out is None else out) if residual is None else (input.clone() if out is None else out, sum)

    steps, x, gamma = Steps(), torch.zeros(2, 16), torch.ones(16)
    s = layers.Recorded(steps)
    streams = (x, None)
    for _ in range(3):
        for name in ("norm_1", "norm_2"):
            z, total = layers.normed(s, gamma, streams, name)
            streams = total, z
    assert all(total is not None and total is not residual for residual, total, _ in steps.calls if residual is not None)
    assert steps.calls[2][2] is steps.calls[4][2] is not None and steps.calls[3][1] is steps.calls[5][1]


# ---- the run and its record
def test_a_run_keeps_going_and_goes_on_in_its_file(tmp_path, monkeypatch):
    monkeypatch.setattr(BY_NAME["convert_row"], "build", lambda *_: 1 / 0)
    status, data = run(tmp_path, "--arms", "fp8_row,convert_row,chain_row_tuned")
    assert status == 0 and {row["arm"] for row in data["rows"]} == {"fp8_row", "chain_row_tuned"}
    (note,) = data["errors"]
    assert (note["what"], note["why"]) == ("tiny-llama convert_row b1", "ZeroDivisionError: division by zero")
    assert all(row["whole"] is False and set(row["us"]) == {"1", "2"} for row in data["rows"])
    assert all(row["logits_vs_bf16"] <= row["logits_bound"] for row in data["rows"])
    run_of, chained = data["runs"][0], data["rows"][1]
    assert run_of["torch"] == torch.__version__ and run_of["sluice"] and run_of["gpu"] == "cpu" and chained["over_parts"] > 0
    assert len({row["race"] for row in data["rows"]}) == 1, "timed in turn"
    monkeypatch.undo()
    with host.on_host():
        before = data["rows"]
        status, data = run(tmp_path, "--arms", "fp8_row,convert_row,chain_row_tuned")
        assert status == 0 and data["errors"] == [] and len(data["runs"]) == 2
        assert [row for row in data["rows"] if row["run"] == 0] == before
        assert [row["arm"] for row in data["rows"] if row["run"] == 1] == ["convert_row"]
        status, data = run(tmp_path, "--arms", "fp8_row", "--again")
        assert [row["run"] for row in data["rows"] if row["arm"] == "fp8_row"] == [2] and len(data["rows"]) == 3


def test_a_wrong_arm_has_no_time(tmp_path, monkeypatch):
    product = recipes.scaled_product
    monkeypatch.setattr(recipes, "scaled_product", lambda a, b, scale_a, scale_b: product(a, b, scale_a * 2, scale_b))
    _, data = run(tmp_path, "--arms", "fp8_row,sluice_ops_row")
    assert [row["arm"] for row in data["rows"]] == ["sluice_ops_row"]
    assert data["errors"][0]["what"] == "tiny-llama fp8_row b1" and "from bf16's, and row may be" in data["errors"][0]["why"]


def test_a_run_without_time_says_what_it_left_out(tmp_path):
    status, data = run(tmp_path, "--arms", "bf16,hf_eager", "--seconds", "0")
    assert status == 1 and data["rows"] == []
    assert {note["what"] for note in data["skipped"]} == {"tiny-llama bf16 b1", "tiny-llama hf_eager b1"}
    assert all("s left" in note["why"] for note in data["skipped"])
    _, data = run(tmp_path, "--arms", "bf16")
    assert [note["what"] for note in data["skipped"]] == ["tiny-llama hf_eager b1"] and len(data["rows"]) == 1


def test_all_layers_are_measured_when_asked_for(tmp_path, monkeypatch):
    monkeypatch.setitem(models.MODELS, "tiny-llama", models.MODELS["tiny-llama"].__class__(256, 4, 2, 64, 512, 512, 3, 10000.0, False))
    _, extrapolated = run(tmp_path, "--arms", "chain_int4_tuned")
    _, data = run(tmp_path, "--arms", "chain_int4_tuned", "--layers", "full")
    row = next(row for row in data["rows"] if row["whole"])
    assert set(row["us"]) == {"3"} and row["us_layer"] is None and row["ms_token"] == pytest.approx(row["us"]["3"] / 1e3, abs=1e-3)
    assert len(data["rows"]) == 2 and extrapolated["rows"][0] in data["rows"]


@pytest.mark.parametrize("arguments, words", [
    (["--arms", "fp8_rows"], "no arm fp8_rows: --list names them"), (["--layers", "8,4"], "two numbers of layers, like 4,8"),
    (["--layers", "half"], "invalid"), ([], "--out is missing"), (["--out", "x", "--torchao", "/nowhere"], "holds no folder torchao")])
def test_misuse_is_refused(arguments, words, capsys):
    with pytest.raises(SystemExit):
        arms.main(["--cpu", *arguments])
    assert words in capsys.readouterr().err


def test_a_record_of_another_gpu_is_not_gone_on_in(tmp_path):
    Record(tmp_path / "r.json", "NVIDIA H200", 1.0).save()
    with pytest.raises(ValueError, match="gpu = 'NVIDIA H200' must be 'NVIDIA H100'.*give another --out"):
        Record(tmp_path / "r.json", "NVIDIA H100", 1.0)


def test_a_layer_and_the_rest_come_from_two_counts():
    one, rest, whole = cell.layers_us({4: 500.0, 8: 900.0}, 32)
    assert (one, rest, whole) == (100.0, 100.0, 3300.0) and cell.layers_us({32: 3300.0}, 32) == (None, None, 3300.0)


def test_a_race_takes_turns_and_resets(monkeypatch):
    order = []
    contenders = [clocks.Contender(clocks.Loop(lambda i=i: order.append(i), False), lambda i=i: order.append(-i - 1)) for i in range(2)]
    order.clear()
    clocks.race(contenders, 2)
    assert order == [-1, 0, -2, 1, -1, 0, -2, 1, -2, 1, -1, 0] and all(len(one.us) == 2 for one in contenders)


def test_every_arm_of_the_issue_is_there():
    done = subprocess.run([sys.executable, str(SCRIPT), "--list"], capture_output=True, text=True, check=True)
    wanted = {"hf_eager", "hf_static", "bf16", "fp8_row", "fp8_row_pdl", "fp8_static", "fp8_static_pdl", "torchao_row", "int4_tinygemm",
              "override_row", "override_torchao", "convert_row", "convert_int4", "sluice_ops_row", "sluice_ops_static", "sluice_ops_int4"}
    wanted |= {f"chain_{by}_{overlap}" for by in ("row", "tensor", "int4", "bf16") for overlap in ("off", "untuned", "tuned", "ordinary")}
    assert set(done.stdout.split()) == wanted


def test_the_settings_of_an_arm_end_with_it():
    import torch._inductor.config as inductor
    with BY_NAME["fp8_static_pdl"].scope():
        assert inductor.triton.enable_pdl
    assert not inductor.triton.enable_pdl
