# SPDX-License-Identifier: Apache-2.0
"""A public function answers any call, or raises a ``sluice.Error`` whose message is one short line."""
import random
import re
import sys

import pytest

np = pytest.importorskip("numpy")
pytest.importorskip("tvm_ffi")

import sluice  # noqa: E402
import sluice.weights  # noqa: E402
from hostile_values import arguments_for, arrays, public, values  # noqa: E402

CALLS = 120  # calls per function; there are about fifty functions
FUNCTIONS = dict(public((sluice, sluice.weights)))


@pytest.fixture
def nothing_is_compiled(tmp_path, monkeypatch):
    """Calls that would compile find no compiler, also on a machine with a GPU."""
    (tmp_path / "empty").mkdir()
    monkeypatch.setenv("SLUICE_NVRTC", str(tmp_path / "empty"))
    monkeypatch.setenv("SLUICE_CACHE_DIR", str(tmp_path / "kernels"))
    monkeypatch.chdir(tmp_path)


def good_values():
    """Returns valid values by argument name, so that calls get beyond the first check."""
    quantized = sluice.weights.quantize_groups(np.ones((64, 128), np.float32), 64)
    packed = sluice.pack_int4(quantized)
    words = np.full((16, 64), 0x77777777, np.int32)
    plan, problem, few_bits = sluice.plan(m=64, n=64, k=64), sluice.Problem(64, 64, 64), sluice.Problem(16, 64, 128, packed=packed.format)
    conv, image = sluice.Convolution("fprop", (2, 64, 8, 8), (64, 3, 3)), np.zeros((2, 8, 8, 64), np.float16).transpose(0, 3, 1, 2)
    return {
        "": values() + arrays(np), "PackedWeights": [packed], "QuantizedWeights": [quantized], "WeightFormat": [packed.format],
        "Problem": [problem, few_bits], "Plan": [plan], "s": [problem.struct()],
        "m": [64], "n": [64], "k": [128], "batch": [2], "group": [64, 128, 0], "bits": [4, 8], "start": [0, 64], "stop": [64, 128],
        "a": [np.ones((64, 128), np.float16)], "b": [np.ones((128, 64), np.float16)], "c": [None], "bias": [None, "bf16"],
        "out": [np.ones((64, 64), np.float16)], "codes": [quantized.codes], "scales": [quantized.scales, np.ones((16, 64), np.float16)],
        "zeros": [None, quantized.scales], "weights": [quantized, packed.format], "weight": [np.ones((64, 128), np.float32)],
        "blob": [packed.blob], "format": [packed.format], "permutation": [np.arange(128)], "order": ["half", np.arange(64)],
        "qweight": [words], "qzeros": [np.full((1, 8), 0x77777777, np.int32)], "weight_packed": [words], "number": [packed.format.number],
        "weight_scale": [np.ones((64, 1), np.float16)], "weight_shape": [(64, 128)], "stages": [3, 4], "tile": [(128, 128), (16, None)],
        "cluster": [(1, 1), (2, 1, 1)], "packed": [packed.format], "problem": [None, problem, few_bits], "what": [[], plan, [problem, few_bits]], "device": [None, 0],
        "scale_type": ["fp16"], "schedule": ["plain", "ping_pong", "narrow"], "packers": [[packed.format]], "quantizers": [["bf16"]],
        "Convolution": [conv], "op": ["fprop", "wgrad"], "input": [(2, 64, 8, 8), image], "filter": [(64, 3, 3)], "output": [image],
        "symmetric": [True, False], "jobs": [1], "candidates": [1, 3], "swapped": [True], "activation": ["relu"], "scale_a": ["none", None],
    }


@pytest.mark.parametrize("name", FUNCTIONS)
def test_hostile_arguments_get_an_answer_or_an_error_of_ours(name, nothing_is_compiled):
    generator = random.Random(name)
    good = good_values()
    for _ in range(CALLS):
        places, named = arguments_for(name, FUNCTIONS[name], good, generator)
        try:
            FUNCTIONS[name](*places, **named)
        except sluice.Error as error:
            text = str(error)
            is_path = error.code in ("toolchain", "io")  # the library's message quotes the path unchanged
            assert (text.isprintable() or is_path) and len(text) < 1000, text


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_call_that_does_not_fit_is_an_error_of_ours(name):
    """A public function without ``entry`` would raise Python's own TypeError here."""
    with pytest.raises(sluice.Error):
        FUNCTIONS[name](*[object()] * 40)


def test_new_functions_are_in_by_themselves():
    assert {"sluice.plan", "sluice.PackedWeights", "sluice.PackedWeights.slice_k", "sluice.Problem.from_struct",
            "sluice.Workspace", "sluice.weights.from_gptq"} <= set(FUNCTIONS)
    assert len(FUNCTIONS) > 40


def test_a_function_without_the_net_is_seen(monkeypatch):
    bare = sluice.plan.__wrapped__
    with pytest.raises(TypeError) as caught:
        bare(*[object()] * 40)
    assert not isinstance(caught.value, sluice.Error)


# ---- numbers, which ctypes would cut ----
NUMBERS = ("stages", "raster_group", "clusters", "splits", "workspace_limit")
OF_PACKED = ("warps", "stages", "ctas", "w_stages", "k_groups")
PLAN, PACKED_PLAN = dict(m=64, n=64, k=64), dict(m=16, n=64, k=128, packed=sluice.WeightFormat())
CALLERS = [(PLAN, name) for name in NUMBERS] + [(PACKED_PLAN, name) for name in OF_PACKED]


@pytest.mark.parametrize("sizes, name", CALLERS, ids=[f"{'packed-' if 'packed' in sizes else ''}{name}" for sizes, name in CALLERS])
@pytest.mark.parametrize("value", [2**63, 2**64 + 4, 10**400, -1, -2**32, 3.0, 3.9, "3", True, float("nan"), float("inf")],
                         ids=lambda value: str(value)[:20])
def test_overrides_are_whole_numbers_that_c_can_hold(sizes, name, value):
    with pytest.raises(sluice.Error) as caught:
        sluice.plan(**sizes, **{name: value})
    assert str(caught.value).startswith(f"{name} = ") and isinstance(caught.value, (ValueError, TypeError))


@pytest.mark.parametrize("name", ["tile", "cluster"])
@pytest.mark.parametrize("place", [0, 1])
@pytest.mark.parametrize("value", [2**63, 2**64 + 4, 10**400, -1, -2**32, 3.0, 3.9, "3", True, float("nan"), float("inf")],
                         ids=lambda value: str(value)[:20])
def test_a_tile_and_a_cluster_are_of_such_numbers(name, place, value):
    for sizes in (PLAN, PACKED_PLAN):
        with pytest.raises(sluice.Error) as caught:
            sluice.plan(**sizes, **{name: (value, 16) if place == 0 else (16, value)})
        assert str(caught.value).startswith(f"{name}[{place}] = ")


@pytest.mark.parametrize("name", ["stages", "raster_group", "clusters", "splits", "warps", "w_stages", "k_groups", "ctas"])
def test_overrides_of_32_bits(name):
    with pytest.raises(sluice.InvalidArgument, match=re.escape(f"{name} = 4294967300 must be from 0 to 2^31 - 1")):
        sluice.plan(**PLAN, **{name: 2**32 + 4})


BAD = [
    (lambda: sluice.plan(**PLAN, tile=(2**32 + 128, 128)), sluice.InvalidArgument, "tile[0] = 4294967424 must be from 0"),
    (lambda: sluice.plan(**PLAN, tile=(-1, -1)), sluice.InvalidArgument, "tile[0] = -1"),
    (lambda: sluice.plan(**PLAN, tile=5), sluice.InvalidArgument, "tile = 5 must have 2 numbers"),
    (lambda: sluice.plan(**PLAN, tile="64"), sluice.InvalidArgument, "tile = '64' must have 2 numbers"),
    (lambda: sluice.plan(**PLAN, tile=("a", "b")), sluice.InvalidType, "tile[0] = 'a' must be an integer, and is of type str"),
    (lambda: sluice.plan(**PLAN, cluster=(1, None)), sluice.InvalidType, "cluster = (1, None) must hold numbers"),
    (lambda: sluice.plan(**PLAN, workspace_limit=10**400), sluice.InvalidSize, "an integer of 1329 bits"),
    (lambda: sluice.plan(**PLAN, schedule="plain\0x"), sluice.InvalidArgument, "schedule = 'plain\\x00x'"),
    (lambda: sluice.plan(**PLAN, schedule="\ud800"), sluice.InvalidArgument, "schedule = '\\ud800'"),
    (lambda: sluice.plan(**PLAN, store=3), sluice.InvalidType, "store = 3 must be a name"),
    (lambda: sluice.plan(**PLAN, swapped="no"), sluice.InvalidArgument, "swapped = 'no' must be True or False"),
    (lambda: sluice.plan(**PLAN, ignore_records=1), sluice.InvalidArgument, "ignore_records = 1 must be True or False"),
    (lambda: sluice.plan(**PLAN, device="x"), sluice.InvalidType, "device = 'x' must be an integer"),
    (lambda: sluice.plan(**PLAN, device=2**32), sluice.InvalidArgument, "device = 4294967296"),
    (lambda: sluice.plan(1), sluice.InvalidType, "problem = 1 must be a sluice.Problem"),
    (lambda: sluice.plan(**PLAN, schedule="plain, stages=3"), sluice.InvalidArgument, 'schedule = "plain__stages=3" must be one of'),
    (lambda: sluice.plan(**PLAN, schedule="plain,stages=3"), sluice.InvalidArgument, 'schedule = "plain_stages=3" must be one of'),
    (lambda: sluice.plan(**PACKED_PLAN, tile=(8, 16, 1)), sluice.InvalidArgument, "tile = (8, 16, 1) must have 2 numbers"),
    (lambda: sluice.plan(sluice.WeightFormat()), sluice.InvalidType, "must be a sluice.Problem"),
    (lambda: sluice.plan(sluice.Problem(**PACKED_PLAN), m=4), sluice.InvalidArgument, "give a Problem or its fields (['m']), not both"),
    (lambda: sluice.plan(m=True, n=64, k=64), sluice.InvalidType, "m = True must be an integer, and is of type bool"),
    (lambda: sluice.plan(m=np.array([64, 64]), n=64, k=64), sluice.InvalidType, "m = array([64, 64]) must be an integer"),
    (lambda: sluice.plan(m=64, n=64, k=64, a="x" * 10**6), sluice.InvalidArgument, "..."),
    (lambda: sluice.plan(**PLAN, **{"a\nb": 1}), sluice.InvalidArgument, "a\\nb"),
    (lambda: sluice.compile(None), sluice.InvalidType, "what = None must be a list"),
    (lambda: sluice.compile([3]), sluice.InvalidType, "what holds 3, of type int"),
    (lambda: sluice.compile(quantizers="bf16"), sluice.InvalidType, "quantizers = 'bf16' must be a list"),
    (lambda: sluice.compile(packers=[None]), sluice.InvalidType, "packers = None must be a sluice.WeightFormat"),
    (lambda: sluice.compile([], cache_dir=5), sluice.InvalidType, "cache_dir = 5 must be a path"),
    (lambda: sluice.compile([], cache_dir="a\0b"), sluice.InvalidArgument, "cache_dir = 'a\\x00b' holds a zero byte"),
    (lambda: sluice.compile([], nvrtc="\ud800"), sluice.InvalidArgument, "nvrtc = '\\ud800'"),
    (lambda: sluice.compile([], jobs=2**32 + 1), sluice.InvalidArgument, "jobs = 4294967297"),
    (lambda: sluice.prepare("x"), sluice.InvalidType, "what = 'x' must be a list"),
    (lambda: sluice.holdings("x"), sluice.InvalidType, "device = 'x' must be an integer"),
    (lambda: sluice.holdings(None), sluice.InvalidType, "device = None"),
    (lambda: sluice.Workspace(0, nbytes=-5), sluice.Error, ""),
    (lambda: sluice.Plan(5, None), sluice.InvalidType, "made by sluice.plan()"),
    (lambda: sluice.WeightFormat.from_number("x"), sluice.InvalidType, "number = 'x' must be an integer"),
    (lambda: sluice.WeightFormat.from_number(-1), sluice.InvalidArgument, "-1 is no weight format"),
    (lambda: sluice.WeightFormat(group=True).struct(), sluice.InvalidType, "group = True"),
    (lambda: sluice.weights.dequantize(3), sluice.InvalidType, "weights = 3 must be sluice.weights.QuantizedWeights"),
    (lambda: sluice.weights.from_gptq(None, None, None), sluice.InvalidArgument, "no array is given"),
    (lambda: sluice.PackedWeights(np.zeros(8, np.uint8), 64, 128, format=None), sluice.InvalidType, "format = None must be"),
    (lambda: sluice.Problem(), sluice.InvalidCall, "Problem: m and n and k are missing"),
]


@pytest.mark.parametrize("call, kind, mention", BAD, ids=range(len(BAD)))
def test_messages_say_value_rule_and_remedy(call, kind, mention):
    with pytest.raises(kind) as caught:
        call()
    assert mention in str(caught.value) and len(str(caught.value)) < 600


def test_numbers_of_other_libraries_are_numbers():
    assert sluice.plan(m=np.int64(64), n=np.uint8(64), k=np.array(64)).text == sluice.plan(**PLAN).text
    assert sluice.plan(**PLAN, splits=np.int32(1)).text == sluice.plan(**PLAN, splits=1).text


def test_what_is_not_about_arguments_passes():
    def interrupted():
        raise KeyboardInterrupt
        yield

    with pytest.raises(KeyboardInterrupt):
        sluice.compile(interrupted())
    assert sys.exc_info() == (None, None, None)
