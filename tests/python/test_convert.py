# SPDX-License-Identifier: Apache-2.0
"""``convert_``: which layers it converts, which it leaves and reports, and that it raises if there is nothing
to convert. No GPU."""
import pytest

torch = pytest.importorskip("torch")

import sluice  # noqa: E402
import sluice.torch as st  # noqa: E402

BF16 = torch.bfloat16
QUANTISING = ("tensor", "row", "block", "int4", "int8")


class Experts(torch.nn.Module):
    """Experts as in transformers: parameters without linear layers."""

    def __init__(self):
        super().__init__()
        self.gate_up_proj = torch.nn.Parameter(torch.zeros(4, 256, 128, dtype=BF16))


class Conv1D(torch.nn.Module):
    """A linear layer as in transformers' GPT-2."""

    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(128, 256, dtype=BF16))


def language_model(tie=False, layers=2):
    model = torch.nn.ModuleDict({
        "embed": torch.nn.Embedding(512, 128, dtype=BF16),
        "layers": torch.nn.ModuleList(torch.nn.ModuleDict({"up": torch.nn.Linear(128, 256, dtype=BF16), "experts": Experts()})
                                      for _ in range(layers)),
        "lm_head": torch.nn.Linear(128, 512, bias=False, dtype=BF16)})
    if tie:
        model["lm_head"].weight = model["embed"].weight
    return model


def converted(model, **options):
    reports = []
    assert st.nn.convert_(model, report=reports.append, **options) is model
    return reports[0]


@pytest.mark.parametrize("recipe", QUANTISING)
def test_the_output_head_stays_unless_asked_for(recipe):
    model = language_model()
    done = converted(model, recipe=recipe)
    assert done.converted == ("layers.0.up", "layers.1.up") and type(model["lm_head"]) is torch.nn.Linear
    assert list(done.skipped) == ["lm_head"] and "lm_head=True" in done.skipped["lm_head"]
    done = converted(language_model(), recipe=recipe, lm_head=True)
    assert "lm_head" in done.converted and not done.skipped


@pytest.mark.parametrize("recipe", QUANTISING)
def test_a_tied_weight_is_untied_by_two_words_only(recipe):
    model = language_model(tie=True)
    done = converted(model, recipe=recipe, lm_head=True)
    assert model["lm_head"].weight is model["embed"].weight
    assert "tied to embed.weight" in done.skipped["lm_head"] and "tied=True" in done.skipped["lm_head"]
    assert "lm_head=True and tied=True give" in converted(language_model(tie=True), recipe=recipe).skipped["lm_head"]
    done = converted(model, recipe=recipe, filter_fn=lambda module, name: name == "lm_head", lm_head=True, tied=True)
    assert done.converted == ("lm_head",)
    with pytest.raises(sluice.InvalidArgument, match="cannot take another as weight: tie or assign weights before convert_"):
        model["lm_head"].weight = model["embed"].weight  # as tie_weights() does


def test_two_linears_of_one_weight_are_tied_however_it_is_shared():
    first, second = torch.nn.Linear(64, 64, dtype=BF16), torch.nn.Linear(64, 64, dtype=BF16)
    second.weight = torch.nn.Parameter(first.weight.detach())  # two parameters with one memory
    model = torch.nn.Sequential(first, second, torch.nn.Linear(64, 64, dtype=BF16))
    done = converted(model, recipe="row")
    assert done.converted == ("2",) and "tied to 1.weight" in done.skipped["0"] and "tied to 0.weight" in done.skipped["1"]


def test_sixteen_bits_share_weights_and_take_heads_and_tied_ones():
    model = language_model(tie=True)
    done = converted(model, recipe=None)
    assert "lm_head" in done.converted and not done.skipped
    assert model["lm_head"].weight is model["embed"].weight
    # A normal weight may be assigned.
    model["lm_head"].weight = torch.nn.Parameter(torch.ones(512, 128, dtype=BF16))


def test_what_transformers_calls_its_output_is_the_head():
    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.up, self.embed_out = torch.nn.Linear(64, 64), torch.nn.Linear(64, 64)

        def get_output_embeddings(self):
            return self.embed_out

    assert list(converted(Model(), recipe="row").skipped) == ["embed_out"]


def test_the_report_counts_bytes_and_names_what_stays():
    done = converted(language_model(), recipe="row")
    assert done.old_bytes == 2 * 2 * 128 * 256 and done.new_bytes == 2 * (128 * 256 + 4 * 256)
    assert done.kept["layers.1.experts.gate_up_proj"] == ("Experts", 2 * 4 * 256 * 128)
    assert done.kept_bytes == 2 * 2 * 4 * 256 * 128 + 2 * 2 * 512 * 128
    lines = str(done).splitlines()
    assert lines[:2] == ["convert_(recipe='row'): 2 layers converted, 1 skipped",
                         "  weights of 131 kB, 14 % of the model's 918 kB, now take 67.6 kB"]
    assert "  as it was: layers.*.experts.gate_up_proj (2 of Experts), 524 kB" in lines
    assert "  as it was: embed.weight (Embedding), 131 kB" in lines
    assert not any("bias" in line for line in lines), "small parts have no line"
    assert str(converted(language_model(layers=1), recipe="row")).startswith("convert_(recipe='row'): 1 layer converted")


@pytest.mark.parametrize("recipe, bits", [("int4", 4 + 16 / 128), ("int8", 8 + 16 / 128), (None, 16)])
def test_packed_and_plain_weights_are_counted_too(recipe, bits):
    done = converted(torch.nn.Sequential(torch.nn.Linear(256, 64, bias=False, dtype=BF16)), recipe=recipe)
    assert (done.old_bytes, done.new_bytes, done.kept) == (2 * 256 * 64, 256 * 64 * bits / 8, {})


def test_most_bytes_left_are_a_warning(caplog):
    caplog.set_level("INFO", "sluice")
    st.nn.convert_(language_model(), recipe="row")
    st.nn.convert_(torch.nn.Sequential(torch.nn.Linear(64, 64)), recipe="row")
    assert [record.levelname for record in caplog.records] == ["WARNING", "INFO"]


NOTHING = [
    ("no linears", torch.nn.Sequential(torch.nn.ReLU()), {}, "the model has no torch.nn.Linear"),
    ("linears of another class", torch.nn.ModuleDict({"c_attn": Conv1D()}), {}, "no torch.nn.Linear; as it was: c_attn.weight (Conv1D), 65.5 kB"),
    ("only a head", torch.nn.ModuleDict({"lm_head": torch.nn.Linear(64, 64)}), {}, "lm_head: it is the output head"),
    ("a filter of no name", torch.nn.Sequential(torch.nn.Linear(64, 64)), {"filter_fn": lambda module, name: "mpl" in name},
     "filter_fn is false for all of the model's 1 layers, 0 for one"),
    ("converted", torch.nn.Sequential(st.nn.Linear(64, 64, recipe="row")), {}, "the model's layers are converted already, 0 to Linear"),
    ("sizes", torch.nn.Sequential(torch.nn.Linear(62, 62, dtype=BF16)), {}, "in_features = 62 must be a multiple of"),
]


@pytest.mark.parametrize("recipe", QUANTISING)
@pytest.mark.parametrize("model, options, mention", [row[1:] for row in NOTHING], ids=[row[0] for row in NOTHING])
def test_nothing_to_convert_raises(model, options, mention, recipe):
    classes = [type(module) for module in model.modules()]
    if "int" in recipe:
        model = model.to(BF16)
    with pytest.raises(sluice.InvalidArgument) as caught:
        st.nn.convert_(model, recipe=recipe, report=lambda done: pytest.fail("a report of nothing"), **options)
    assert mention in str(caught.value) and str(caught.value).startswith(f"convert_(recipe='{recipe}')")
    assert [type(module) for module in model.modules()] == classes


@pytest.mark.parametrize("recipe, mention", [
    ("fp8", "recipe = 'fp8' must be one of tensor, row, block (FP8), int4, int8 (packed) or None (16 bits): did you mean row?"),
    ("rwo", "did you mean row?"), ("in4", "did you mean int4?")
])
def test_an_unknown_recipe_says_what_there_is(recipe, mention):
    with pytest.raises(sluice.InvalidArgument) as caught:
        st.nn.convert_(torch.nn.Sequential(torch.nn.Linear(64, 64)), recipe=recipe)
    assert mention in str(caught.value) and str(caught.value).count("int4") == (2 if "int4?" in mention else 1)


def test_a_layer_says_which_class_has_a_packed_recipe():
    with pytest.raises(sluice.InvalidArgument, match=r"'int4' is the recipe of Linear4bit"):
        st.nn.Linear(64, 64, recipe="int4")


def test_converted_and_loaded_layers_race_at_their_first_calls(monkeypatch):
    told = []
    monkeypatch.setattr("sluice.torch._layers.let_race", lambda *sizes: told.append(sizes))
    model = torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.Conv2d(64, 32, (3, 5))).bfloat16()
    st.nn.convert_(model, recipe=None, report=lambda done: None)
    assert told == [(128, 64), (32, 64, (3, 5))]
    packed = st.nn.convert_(torch.nn.Sequential(torch.nn.Linear(256, 128)).bfloat16(), recipe="int4", report=lambda done: None)
    told.clear()
    st.nn.load_(torch.nn.Sequential(torch.nn.Linear(256, 128)).bfloat16(), packed.state_dict())
    assert told == [(128, 256)]
