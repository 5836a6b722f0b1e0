# SPDX-License-Identifier: Apache-2.0
"""Converted models of transformers: what is left, and saving and loading. Skipped without transformers, which no other test needs."""
import glob

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

import sluice  # noqa: E402
import sluice.torch as st  # noqa: E402
from safetensors.torch import load_file  # noqa: E402

SMALL = dict(hidden_size=128, intermediate_size=256, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, vocab_size=256)


def llama(config):
    torch.manual_seed(0)
    return transformers.LlamaForCausalLM(config).to(torch.bfloat16)


@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("recipe", ["tensor", "row", "block", "int4", "int8"])
def test_a_saved_model_comes_back_and_no_plain_one_takes_it(tmp_path, recipe, tied):
    model = st.nn.convert_(llama(transformers.LlamaConfig(**SMALL, tie_word_embeddings=tied)), recipe=recipe)
    assert type(model.lm_head) is torch.nn.Linear and (model.lm_head.weight is model.model.embed_tokens.weight) == tied
    model.save_pretrained(tmp_path)
    with pytest.raises(RuntimeError, match="ignore_mismatched_sizes"):
        transformers.LlamaForCausalLM.from_pretrained(tmp_path)
    state = {}
    for file in glob.glob(f"{tmp_path}/*.safetensors"):
        state.update(load_file(file))
    again = st.nn.load_(llama(transformers.LlamaConfig.from_pretrained(tmp_path)), state)
    wanted, got = model.state_dict(), again.state_dict()
    assert set(wanted) == set(got) and all(torch.equal(wanted[name].float(), got[name].float()) for name in wanted)
    assert (again.lm_head.weight is again.model.embed_tokens.weight) == tied


def test_tying_after_a_head_was_untied_raises():
    model = llama(transformers.LlamaConfig(**SMALL, tie_word_embeddings=True))
    st.nn.convert_(model, recipe="row", lm_head=True, tied=True)
    with pytest.raises(sluice.InvalidArgument, match="tie or assign weights before convert_"):
        model.tie_weights()


def test_experts_are_named_as_what_stays():
    config = transformers.MixtralConfig(**SMALL, num_local_experts=4)
    reports = []
    st.nn.convert_(transformers.MixtralForCausalLM(config).to(torch.bfloat16), recipe="row", report=reports.append)
    assert len(reports[0].converted) == 8 and "lm_head" in reports[0].skipped
    assert "experts.gate_up_proj (2 of MixtralExperts)" in str(reports[0])


def test_a_model_of_other_layers_is_refused_with_their_names():
    model = transformers.GPT2LMHeadModel(transformers.GPT2Config(n_embd=128, n_head=4, n_layer=2, vocab_size=256)).to(torch.bfloat16)
    with pytest.raises(sluice.InvalidArgument, match=r"lm_head: its weight is tied.*c_fc.weight \(2 of Conv1D\)"):
        st.nn.convert_(model, recipe="row")
