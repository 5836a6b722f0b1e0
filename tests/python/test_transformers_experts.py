# SPDX-License-Identifier: Apache-2.0
"""experts_implementation="sluice" of transformers without a GPU: the models' own experts, with the kernels written in torch."""
import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

import sluice.transformers  # noqa: E402,F401
from test_moe import layer_on_host, on_host  # noqa: E402,F401 (fixtures)

SIZES = dict(vocab_size=64, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
             head_dim=8, max_position_embeddings=64)
MODELS = {
    "qwen3_moe": lambda: transformers.Qwen3MoeConfig(**SIZES, moe_intermediate_size=24, num_experts=6, num_experts_per_tok=2),
    "mixtral": lambda: transformers.MixtralConfig(**SIZES, num_local_experts=4, num_experts_per_tok=2),
    "gpt_oss": lambda: transformers.GptOssConfig(**SIZES, num_local_experts=4, num_experts_per_tok=2, sliding_window=16,
                                                 layer_types=["sliding_attention", "full_attention"]),
}


def model_of(name, implementation):
    torch.manual_seed(1)
    config = MODELS[name]()
    config._experts_implementation = implementation
    model = transformers.AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16, attn_implementation="eager")
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() == 3 or not parameter.isfinite().all():
                parameter.normal_(0, 0.2)
    return model


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("training", [False, True], ids=["inference", "training"])
def test_experts_of_models_are_those_of_transformers(layer_on_host, name, training):  # noqa: F811
    ids = torch.randint(0, 64, (2, 9), generator=torch.Generator().manual_seed(2))
    eager, ours = model_of(name, "eager"), model_of(name, "sluice")
    ours.load_state_dict(eager.state_dict())
    with torch.set_grad_enabled(training):
        wanted, made = eager(ids).logits, ours(ids).logits
    assert (made - wanted).float().norm() <= 0.02 * wanted.float().norm()
    if not training:
        return
    for logits in (wanted, made):
        logits.float().square().mean().backward()
    for (key, one), (_, other) in zip(eager.named_parameters(), ours.named_parameters()):
        if one.grad is not None and one.grad.norm() > 0:
            assert (one.grad - other.grad).float().norm() <= 0.05 * one.grad.float().norm(), key


def arranged(model):
    assert sluice.transformers.arrange_experts(model) == 2
    assert sluice.transformers.arrange_experts(model) == 0, "once"
    return model


@pytest.mark.parametrize("training", [False, True], ids=["inference", "training"])
def test_gates_of_gpt_oss_are_in_the_product_once_arranged(layer_on_host, monkeypatch, training):  # noqa: F811
    from sluice.torch import moe

    ids = torch.randint(0, 64, (2, 9), generator=torch.Generator().manual_seed(2))
    eager, ours = model_of("gpt_oss", "eager"), model_of("gpt_oss", "sluice")
    with torch.no_grad():
        for layer in eager.model.layers:
            layer.mlp.experts.gate_up_proj_bias.normal_(0, 6)  # so large that gates and ups are clamped
    ours.load_state_dict(eager.state_dict())
    arranged(ours)
    seen, experts = [], moe.experts
    monkeypatch.setattr(moe, "experts", lambda *args, **more: (seen.append(more["activation"]), experts(*args, **more))[1])
    with torch.set_grad_enabled(training):
        wanted, made = eager(ids).logits, ours(ids).logits
    assert seen == ["clamped_swiglu"] * 2
    assert (made - wanted).float().norm() <= 0.02 * wanted.float().norm()
    if not training:
        with torch.no_grad():
            assert torch.allclose(arranged(eager)(ids).logits, wanted), "any implementation computes the same"
        return
    for logits in (wanted, made):
        logits.float().square().mean().backward()
    for one, other in zip(eager.model.layers, ours.model.layers):
        for name in ("gate_up_proj", "gate_up_proj_bias", "down_proj", "down_proj_bias"):
            exact, found = getattr(one.mlp.experts, name).grad, getattr(other.mlp.experts, name).grad
            if name.startswith("gate_up"):
                exact = torch.cat((exact[..., ::2], exact[..., 1::2]), -1)
            assert (found - exact).float().norm() <= 0.05 * exact.float().norm(), name


def test_experts_of_other_ranks_add_nothing(layer_on_host):  # noqa: F811
    from sluice.transformers_experts import experts_forward

    module = model_of("qwen3_moe", "eager").model.layers[0].mlp.experts
    x, weights = torch.randn(5, 32).bfloat16(), torch.rand(5, 2)
    ids = torch.tensor([[0, 6], [6, 6], [1, 2], [5, 6], [3, 0]])
    with torch.no_grad():
        made = experts_forward(module, x, ids, weights)
        wanted = module(x, ids, weights)
    assert torch.allclose(made.float(), wanted.float(), atol=0.05, rtol=0.05) and not made[1].any()
