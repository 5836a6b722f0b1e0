# SPDX-License-Identifier: Apache-2.0
"""Saved states of converted models: they load bit for bit or are refused, and codes are never mistaken for
weights. No GPU."""
import copy

import pytest

torch = pytest.importorskip("torch")

import sluice  # noqa: E402
import sluice.torch as st  # noqa: E402

BF16, E4M3 = torch.bfloat16, torch.float8_e4m3fn
RECIPES = ("tensor", "row", "block", "int4", "int8")


def plain(seed=0):
    torch.manual_seed(seed)
    return torch.nn.ModuleDict({"up": torch.nn.Linear(256, 192, dtype=BF16), "down": torch.nn.Linear(192, 256, bias=False, dtype=BF16),
                                "norm": torch.nn.LayerNorm(256, dtype=BF16)}).eval()


def converted(recipe, seed=0):
    return st.nn.convert_(plain(seed), recipe=recipe)


def bits(tensor):
    return tensor.contiguous().reshape(-1).view(torch.uint8)


def same(a, b):
    return set(a) == set(b) and all(a[name].dtype is b[name].dtype and torch.equal(bits(a[name]), bits(b[name]))
                                    for name in a)


@pytest.mark.parametrize("recipe", RECIPES)
def test_a_state_goes_into_a_model_that_is_converted_alike(recipe):
    state = converted(recipe).state_dict()
    other = converted(recipe, seed=1)
    assert not same(other.state_dict(), state)
    assert str(other.load_state_dict(state)) == "<All keys matched successfully>"
    assert same(other.state_dict(), state)


@pytest.mark.parametrize("meta", [False, True])
@pytest.mark.parametrize("recipe", RECIPES)
def test_a_state_makes_the_layers_of_a_plain_model(recipe, meta):
    model = converted(recipe)
    with torch.device("meta") if meta else torch.device("cpu"):
        other = plain(seed=1)
    assert st.nn.load_(other, model.state_dict(), assign=meta) is other
    assert same(other.state_dict(), model.state_dict())
    assert [repr(layer) for layer in other.values()] == [repr(layer) for layer in model.values()]
    assert not other["up"].training


@pytest.mark.parametrize("recipe", RECIPES)
def test_a_model_of_the_meta_device_is_converted_and_filled(recipe):
    with torch.device("meta"):
        model = plain()
    st.nn.convert_(model, recipe=recipe)
    assert model["up"].stored_weight.is_meta
    model.load_state_dict(converted(recipe).state_dict(), assign=True)
    assert same(model.state_dict(), converted(recipe).state_dict())


@pytest.mark.parametrize("strict", [True, False])
@pytest.mark.parametrize("recipe", RECIPES)
def test_a_plain_model_refuses_the_state(recipe, strict):
    """To see it fail: leave the recipe's mark out of the state."""
    with pytest.raises(RuntimeError, match="size mismatch for up.weight"):
        plain().load_state_dict(converted(recipe).state_dict(), strict=strict)


@pytest.mark.parametrize("strict", [True, False])
@pytest.mark.parametrize("recipe", RECIPES)
def test_a_converted_model_refuses_a_plain_state(recipe, strict):
    model = converted(recipe)
    before = copy.deepcopy(model.state_dict())
    with pytest.raises(RuntimeError, match="up.weight: the state is of a layer that is not quantised.*call convert_ after that"):
        model.load_state_dict(plain(seed=1).state_dict(), strict=strict)
    assert same({name: t for name, t in model.state_dict().items() if "norm" not in name},
                {name: t for name, t in before.items() if "norm" not in name})


@pytest.mark.parametrize("load", [lambda state: converted("row", 1).load_state_dict(state), lambda state: st.nn.load_(plain(1), state)])
def test_a_state_of_version_02_comes_back(load):
    """Version 0.2 stored the codes under the name weight, without a mark."""
    model = converted("row")
    state = {name.replace("weight_e4m3", "weight"): tensor for name, tensor in model.state_dict().items() if tensor.dtype is not torch.uint8}
    assert state["up.weight"].dtype is E4M3
    load(state)
    other = st.nn.load_(plain(1), state)
    assert same(other.state_dict(), model.state_dict())


def test_a_packed_state_of_version_02_comes_back():
    state = converted("int4").state_dict()
    other = converted("int4", seed=1)
    other.load_state_dict({name: tensor for name, tensor in state.items() if not name.endswith(".weight") or "norm" in name})
    assert same(other.state_dict(), state)


def state_of(recipe="row", **change):
    state = converted(recipe).state_dict()
    for name, value in change.items():
        state.pop(name.replace("__", ".")) if value is None else state.update({name.replace("__", "."): value})
    return state


@pytest.mark.parametrize("state, mention", [
    (state_of(down__weight_scale=torch.ones(3)), "weight_scale of shape (3,)"),
    (state_of(norm__weight=None), "state lacks norm.weight"),
    (state_of(other=torch.ones(3)), "state has too many keys, first other"),
    (state_of(norm__bias=torch.ones(3)), "state does not fit the model: size mismatch for norm.bias"),
    (plain().state_dict(), "no layer that convert_ quantised: use model.load_state_dict"),
    ({f"model.{name}": tensor for name, tensor in state_of().items()}, "the model has no such layer"),
    ({name.replace("up", "norm"): tensor for name, tensor in state_of().items()}, "quantised weights for norm, a LayerNorm"),
    (None, "state is None and must be a state, which maps names to tensors"),
], ids=range(8))
def test_a_state_that_does_not_fit_is_refused(state, mention):
    with pytest.raises(sluice.Error) as caught:
        st.nn.load_(plain(), state)
    assert mention in str(caught.value)


def test_a_tied_parameter_may_be_missing():
    def model():
        made = torch.nn.ModuleDict({"embed": torch.nn.Embedding(64, 128, dtype=BF16), "up": torch.nn.Linear(128, 128, dtype=BF16),
                                    "lm_head": torch.nn.Linear(128, 64, bias=False, dtype=BF16)})
        made["lm_head"].weight = made["embed"].weight
        return made

    first = st.nn.convert_(model(), recipe="row")
    state = first.state_dict()
    del state["lm_head.weight"]
    again = st.nn.load_(model(), state)
    assert again["lm_head"].weight is again["embed"].weight and torch.equal(again["embed"].weight, first["embed"].weight)


def test_an_act_order_layer_comes_back():
    packed = st.pack_int4(torch.randn(64, 128).to(BF16), 64)
    import dataclasses

    packed = dataclasses.replace(packed, permutation=torch.randperm(128))
    model = torch.nn.Sequential(st.nn.Linear4bit.from_packed(packed))
    again = st.nn.load_(torch.nn.Sequential(torch.nn.Linear(128, 64, bias=False, dtype=BF16)), model.state_dict())
    assert same(again.state_dict(), model.state_dict()) and type(again[0]) is st.nn.Linear4bit


@pytest.mark.parametrize("recipe", RECIPES)
def test_copies_and_pickles_are_whole(recipe, tmp_path):
    model = converted(recipe)
    assert same(copy.deepcopy(model).state_dict(), model.state_dict())
    torch.save(model, tmp_path / "model.pt")
    assert same(torch.load(tmp_path / "model.pt", weights_only=False).state_dict(), model.state_dict())
    torch.save(model.state_dict(), tmp_path / "state.pt")
    assert same(st.nn.load_(plain(1), torch.load(tmp_path / "state.pt", weights_only=True)).state_dict(), model.state_dict())
