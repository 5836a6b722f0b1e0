// SPDX-License-Identifier: Apache-2.0
// Layers as chains: every step reads the output of the one before it, and the sizes are the models'. To see
// it fail: let `own` always be true in sizes_of, so that o reads qkv's output with a smaller pitch; or let
// down write to kO.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <set>

#include <sluice/chain/chain.h>

#include "bench/chain/layers.h"
#include "bench/chain/tune.h"

namespace sluice::bench {
namespace {

const void* input_of(const ChainStep& step) {
  if (const auto* s = std::get_if<ProductStep>(&step.work)) return s->args.a;
  if (const auto* s = std::get_if<ProductStep>(&step.work)) return s->args.a;
  if (const auto* s = std::get_if<NormStep>(&step.work)) return s->args.input;
  return std::get<QuantizerStep>(step.work).args.input;
}

LayerSpec spec_of(LayerWeights weights, LayerParts parts) {
  return {.weights = weights, .parts = parts, .tokens = 4, .layers = 2, .passes = 2};
}
constexpr LayerWeights kAllWeights[] = {LayerWeights::e4m3, LayerWeights::bf16, LayerWeights::int4};

TEST(chain_layers, every_step_reads_what_the_one_before_it_wrote) {
  for (const LayerWeights weights : kAllWeights)
    for (const LayerParts parts : {LayerParts::all, LayerParts::projections}) {
      const LayerSpec spec = spec_of(weights, parts);
      const LayerMemory memory = imagined_memory(spec);
      const std::vector<ChainStep> steps = steps_of(spec, memory);
      EXPECT_EQ(input_of(steps[0]), memory.input);
      for (size_t i = 1; i < steps.size(); ++i)
        EXPECT_EQ(input_of(steps[i]), written_by(steps[i - 1])[0].data)
            << name_of(spec) << ": " << step_name(steps[i], i);
    }
}

TEST(chain_layers, nothing_is_read_or_written_outside_of_its_buffer) {
  for (const LayerWeights weights : kAllWeights)
    for (const LayerParts parts : {LayerParts::all, LayerParts::projections}) {
      const LayerSpec spec = spec_of(weights, parts);
      const LayerMemory memory = imagined_memory(spec);
      const auto bytes = activation_bytes(spec);
      for (const ChainStep& step : steps_of(spec, memory))
        for (const StepRange& range : written_by(step)) {
          bool found = false;
          for (size_t i = 0; i < bytes.size(); ++i)
            found = found || (range.data == memory.activations.data[i] && range.bytes == bytes[i]);
          EXPECT_TRUE(found) << name_of(spec) << ": " << step.name << " " << range.name << " " << range.bytes;
        }
    }
}

/// Bug that was: for more than 2^31 bytes, round_up() returned the address of another buffer.
TEST(chain_layers, buffers_of_very_many_tokens_lie_apart) {
  LayerSpec spec = spec_of(LayerWeights::bf16, LayerParts::all);
  spec.model = *parse_model("llama3-8b");
  spec.tokens = 65536;
  const LayerMemory memory = imagined_memory(spec);
  const auto bytes = activation_bytes(spec);
  EXPECT_GT(*std::max_element(bytes.begin(), bytes.end()), i64{1} << 31);
  for (size_t i = 0; i < bytes.size(); ++i)
    for (size_t j = 0; j < bytes.size(); ++j) {
      const u64 x = reinterpret_cast<u64>(memory.activations.data[i]);
      const u64 y = reinterpret_cast<u64>(memory.activations.data[j]);
      if (i == j || bytes[i] == 0 || bytes[j] == 0) continue;
      EXPECT_TRUE(x + static_cast<u64>(bytes[i]) <= y || y + static_cast<u64>(bytes[j]) <= x)
          << i << " " << j;
    }
  EXPECT_TRUE(plan_chain(steps_of(spec, memory), DeviceInfo{}).ok());
}

TEST(chain_layers, rows_are_as_far_apart_as_in_the_buffer_that_is_read) {
  for (const LayerWeights weights : kAllWeights)
    for (const LayerParts parts : {LayerParts::all, LayerParts::projections}) {
      const LayerSpec spec = spec_of(weights, parts);
      const LayerMemory memory = imagined_memory(spec);
      const auto bytes = activation_bytes(spec);
      for (const ChainStep& step : steps_of(spec, memory)) {
        i64 pitch = 0;  // in bytes
        if (const auto* s = std::get_if<ProductStep>(&step.work))
          pitch = s->problem.a.ld * bytes_of(s->problem.a.type);
        if (const auto* s = std::get_if<ProductStep>(&step.work))
          pitch = s->problem.a.ld * bytes_of(s->problem.a.type);
        if (const auto* s = std::get_if<QuantizerStep>(&step.work))
          pitch = s->shape.input_ld * bytes_of(s->input);
        for (size_t i = 0; i < bytes.size(); ++i)
          if (pitch != 0 && input_of(step) == memory.activations.data[i]) {
            EXPECT_EQ(pitch * spec.tokens, bytes[i]) << name_of(spec) << ": " << step.name;
          }
      }
    }
}

TEST(chain_layers, each_layer_has_its_own_weights_and_passes_use_them_again) {
  const LayerSpec spec = spec_of(LayerWeights::e4m3, LayerParts::all);
  std::set<const void*> weights;
  int products = 0;
  for (const ChainStep& step : steps_of(spec, imagined_memory(spec)))
    if (const auto* s = std::get_if<ProductStep>(&step.work)) {
      weights.insert(s->args.b);
      ++products;
    }
  EXPECT_EQ(products, 4 * 2 * 2);
  EXPECT_EQ(weights.size(), 4u * 2);
}

TEST(chain_layers, down_reads_what_is_gated_whatever_the_weights) {
  for (const LayerWeights weights : kAllWeights) {
    const LayerSpec spec = spec_of(weights, LayerParts::all);
    const std::vector<ChainStep> steps = steps_of(spec, imagined_memory(spec));
    const size_t layer = steps.size() / 4;
    EXPECT_EQ(steps[layer - 1].name, "down");
    const auto* silu = std::get_if<QuantizerStep>(&steps[layer - 2].work);
    ASSERT_NE(silu, nullptr) << name_of(spec);
    EXPECT_EQ(silu->gate, Gate::silu);
    EXPECT_EQ(silu->shape.columns, spec.model.inner);
    EXPECT_EQ(silu->granularity.has_value(), weights == LayerWeights::e4m3);
  }
}

TEST(chain_layers, fused_have_no_kernel_between_gate_up_and_down) {
  LayerSpec spec = spec_of(LayerWeights::int4, LayerParts::all);
  spec.fusion = Fusion::gated;
  const std::vector<ChainStep> steps = steps_of(spec, imagined_memory(spec));
  ASSERT_EQ(steps.size(), 4u * 6);
  const auto& gate_up = std::get<ProductStep>(steps[4].work);
  EXPECT_TRUE(gate_up.problem.epilogue.gated);
  EXPECT_EQ(gate_up.problem.epilogue.activation, Activation::silu);
  EXPECT_EQ(written_by(steps[4])[0].bytes, activation_bytes(spec)[Activations::kGated]);
  EXPECT_EQ(std::get<ProductStep>(steps[5].work).args.a, gate_up.args.d);
  const auto plan = plan_chain(steps, DeviceInfo{});
  ASSERT_TRUE(plan.ok()) << plan.error().message;
  EXPECT_EQ(name_of(spec), "llama3-8b int4, 4 tokens, fused: gated");
}

TEST(chain_layers, int4_products_of_e4m3_tokens_make_what_the_next_one_reads) {
  LayerSpec spec = spec_of(LayerWeights::int4, LayerParts::all);
  spec.tokens_of_int4 = DType::e4m3;
  EXPECT_EQ(name_of(spec), "llama3-8b int4, 4 e4m3 tokens");
  for (const Fusion fusion : {Fusion::none, Fusion::gated}) {
    spec.fusion = fusion;
    const LayerMemory memory = imagined_memory(spec);
    const std::vector<ChainStep> steps = steps_of(spec, memory);
    ASSERT_EQ(steps.size(), fusion == Fusion::none ? 4u * 8 : 4u * 6);
    for (const ChainStep& step : steps)
      if (const auto* s = std::get_if<ProductStep>(&step.work)) {
        EXPECT_EQ(s->problem.a.type, DType::e4m3);
        EXPECT_EQ(s->problem.b.packed.order, FragmentOrder::byte);
        EXPECT_EQ(s->args.scale_a, memory.one);
        EXPECT_EQ(s->args.scale_d, s->problem.d.type == DType::e4m3 ? memory.one : nullptr);
      }
    const auto& qkv = std::get<ProductStep>(steps[1].work).problem;
    EXPECT_EQ(qkv.d.type, fusion == Fusion::none ? DType::bf16 : DType::e4m3);
    const auto plan = plan_chain(steps, DeviceInfo{});
    ASSERT_TRUE(plan.ok()) << plan.error().message;
  }
}

TEST(chain_layers, fused_dense_products_make_what_the_next_one_reads) {
  for (const Fusion fusion : {Fusion::gated, Fusion::residual}) {
    const LayerSpec spec = fused(spec_of(LayerWeights::e4m3, LayerParts::all), fusion);
    const LayerMemory memory = imagined_memory(spec);
    const std::vector<ChainStep> steps = steps_of(spec, memory);
    ASSERT_EQ(steps.size(), 4u * 6);
    const void* stream = memory.input;
    for (size_t i = 0; i < steps.size(); i += 6) {
      const auto product = [&](size_t at) { return std::get<ProductStep>(steps[i + at].work); };
      const auto norm = [&](size_t at) { return std::get<NormStep>(steps[i + at].work); };
      const ProductStep qkv = product(1), o = product(2), gate_up = product(4), down = product(5);
      EXPECT_EQ(qkv.problem.d.type, DType::e4m3);
      EXPECT_EQ(qkv.args.scale_d, memory.one);
      EXPECT_EQ(o.args.a, qkv.args.d);
      EXPECT_TRUE(gate_up.problem.epilogue.gated);
      EXPECT_EQ(gate_up.args.scale_d, memory.one);
      EXPECT_EQ(d_columns(gate_up.problem), down.problem.k);
      EXPECT_EQ(down.args.a, gate_up.args.d);
      const bool adds = fusion == Fusion::residual;
      EXPECT_EQ(o.problem.epilogue.residual, adds);
      EXPECT_EQ(norm(0).args.sum != nullptr, !adds);
      EXPECT_EQ(norm(3).args.residual != nullptr, !adds);
      if (!adds) continue;
      EXPECT_EQ(norm(0).args.input, stream);
      EXPECT_EQ(o.args.c, stream);
      EXPECT_EQ(norm(3).args.input, o.args.d);
      EXPECT_EQ(down.args.c, o.args.d);
      EXPECT_EQ(down.args.beta, 1.0f);
      stream = down.args.d;
    }
    const auto plan = plan_chain(steps, DeviceInfo{});
    EXPECT_TRUE(plan.ok()) << plan.error().message;
  }
  EXPECT_NE(parse_fusion("all").error().message.find("none, gated, residual, norm"), std::string::npos);
}

TEST(chain_layers, with_norms_in_their_products_are_four_launches) {
  const LayerSpec spec = fused(spec_of(LayerWeights::int4, LayerParts::all), Fusion::norm);
  const LayerMemory memory = imagined_memory(spec);
  const std::vector<ChainStep> steps = steps_of(spec, memory);
  ASSERT_EQ(steps.size(), 4u * 4);
  const void* stream = memory.input;
  for (size_t i = 0; i < steps.size(); i += 4) {
    const auto product = [&](size_t at) { return std::get<ProductStep>(steps[i + at].work); };
    const ProductStep qkv = product(0), o = product(1), gate_up = product(2), down = product(3);
    for (const ProductStep& reader : {qkv, gate_up}) {
      EXPECT_TRUE(reader.problem.norm_a && !reader.problem.epilogue.residual);
      EXPECT_EQ(reader.args.gamma, memory.gamma);
    }
    for (const ProductStep& writer : {o, down})
      EXPECT_TRUE(writer.problem.epilogue.residual && !writer.problem.norm_a);
    EXPECT_EQ(qkv.args.a, stream);
    EXPECT_EQ(o.args.c, stream);
    EXPECT_EQ(gate_up.args.a, o.args.d);
    EXPECT_EQ(down.args.c, o.args.d);
    stream = down.args.d;
  }
  const auto plan = plan_chain(steps, DeviceInfo{});
  ASSERT_TRUE(plan.ok()) << plan.error().message;
  EXPECT_EQ(weights_of(steps[4]).back().data, memory.gamma) << "read before the wait";
  std::vector<ChainStep> writes_gamma = steps;
  std::get<ProductStep>(writes_gamma[5].work).args.gamma = std::get<ProductStep>(writes_gamma[4].work).args.d;
  std::get<ProductStep>(writes_gamma[6].work).args.gamma = std::get<ProductStep>(writes_gamma[4].work).args.d;
  const auto refused = plan_chain(writes_gamma, DeviceInfo{});
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, ErrorCode::aliasing);
  EXPECT_NE(refused.error().message.find("gamma"), std::string::npos) << refused.error().message;

  EXPECT_TRUE(adds_residuals(spec));
  EXPECT_EQ(why_not_fused(spec, Fusion::norm), nullptr);
  LayerSpec bytes = spec;
  bytes.tokens_of_int4 = DType::e4m3;
  EXPECT_NE(why_not_fused(bytes, Fusion::norm), nullptr);
  EXPECT_NE(why_not_fused(bytes, Fusion::residual), nullptr);
  EXPECT_NE(why_not_fused(spec_of(LayerWeights::e4m3, LayerParts::all), Fusion::norm), nullptr);
  EXPECT_NE(why_not_fused(spec_of(LayerWeights::int4, LayerParts::projections), Fusion::gated), nullptr);
}

TEST(chain_layers, bytes_are_the_models) {
  // Numbers of weights in units of 100,000, from the models' published sizes.
  EXPECT_EQ(weight_bytes({.model = known_models()[0]}) / 100'000, 2181);
  EXPECT_EQ(weight_bytes({.model = known_models()[1]}) / 100'000, 1069);
  EXPECT_EQ(weight_bytes({.model = known_models()[2]}) / 100'000, 1929);
  EXPECT_EQ(weight_bytes({.model = known_models()[0], .weights = LayerWeights::bf16}) / 200'000, 2181);
  EXPECT_EQ(weight_bytes({.model = known_models()[0], .weights = LayerWeights::int4}),
            weight_bytes({.model = known_models()[0]}) * 4125 / 8000);
}

TEST(chain_layers, plan_as_chains) {
  for (const Model& model : known_models())
    for (const LayerWeights weights : kAllWeights)
      for (const LayerParts parts : {LayerParts::all, LayerParts::projections}) {
        LayerSpec spec = spec_of(weights, parts);
        spec.model = model;
        const auto plan =
            plan_chain(steps_of(spec, imagined_memory(spec)), DeviceInfo{}, {.hand_off_bytes = 1 << 20});
        ASSERT_TRUE(plan.ok()) << name_of(spec) << ": " << plan.error().message;
        const auto products = std::count_if(plan->plans.begin(), plan->plans.end(),
                                            [](const StepPlan& made) { return made.get<Plan>() != nullptr; });
        EXPECT_LE(products, static_cast<int>(3 * kLayerProducts));
      }
}

TEST(chain_layers, equal_products_read_what_the_one_before_wrote_and_more) {
  LayerSpec spec = spec_of(LayerWeights::e4m3, LayerParts::projections);
  const Result<Model> model = parse_model("1280x8192");
  ASSERT_TRUE(model.ok()) << model.error().message;
  spec.model = *model;
  EXPECT_EQ(weight_bytes(spec), 4 * 1280 * 8192);
  EXPECT_EQ(name_of(spec), "4 x 1280x8192 e4m3 promoted, 4 tokens");
  EXPECT_NE(poison_of(spec), 0xFF) << "columns that nobody writes are read";
  const LayerMemory memory = imagined_memory(spec);
  const std::vector<ChainStep> steps = steps_of(spec, memory);
  EXPECT_EQ(steps.size(), 16u);
  for (size_t i = 0; i < steps.size(); ++i) {
    const auto& s = std::get<ProductStep>(steps[i].work);
    EXPECT_EQ(s.problem.n, 1280);
    EXPECT_EQ(s.problem.k, 8192);
    EXPECT_EQ(s.problem.a.ld, 8192);
    EXPECT_EQ(s.problem.d.ld, 8192);
    if (i > 0) {
      EXPECT_EQ(s.args.a, std::get<ProductStep>(steps[i - 1].work).args.d);
    }
  }
  EXPECT_TRUE(plan_chain(steps, DeviceInfo{}).ok());
  const Result<Model> square = parse_model("8192x8192");
  ASSERT_TRUE(square.ok());
  EXPECT_EQ(poison_of({.model = *square, .parts = LayerParts::projections}), 0xFF);
  for (const char* wrong : {"8192x1280", "0x8", "8x", "8x8x8"})
    EXPECT_FALSE(parse_model(wrong).ok()) << wrong;
}

TEST(chain_layers, a_model_is_four_sizes_or_a_config_file) {
  const auto sizes = [](const Result<Model>& m) {
    EXPECT_TRUE(m.ok()) << (m.ok() ? "" : m.error().message);
    return m ? std::array{m->width, m->qkv, m->attention, m->inner, m->n} : std::array<i64, 5>{};
  };
  EXPECT_EQ(sizes(parse_model("5120x10240x8192x25600")), (std::array<i64, 5>{5120, 10240, 8192, 25600, 0}));
  const auto file = std::filesystem::temp_directory_path() / "sluice_model_test" / "config.json";
  std::filesystem::create_directories(file.parent_path());
  const auto with = [&](const char* text, const char* shards = "") {
    std::ofstream(file) << text;
    return parse_model(file.string() + shards);
  };
  const char* llama =
      R"({"model_type": "llama", "hidden_size": 16384, "num_attention_heads": 128, "num_key_value_heads": 8,
                          "intermediate_size": 53248, "rope_scaling": {"factor": 8.0}})";
  EXPECT_EQ(sizes(with(llama)), (std::array<i64, 5>{16384, 18432, 16384, 53248, 0}));
  EXPECT_EQ(sizes(with(llama, ":8")), (std::array<i64, 5>{16384, 2304, 2048, 6656, 0}));
  EXPECT_EQ(with(llama, ":8")->name, "sluice_model_test-tp8");
  EXPECT_EQ(
      sizes(with(
          R"({"text_config": {"hidden_act": "silu", "hidden_size": 5120, "num_attention_heads": 32, "head_dim": 128,
                           "num_key_value_heads": 8, "intermediate_size": 32768}})")),
      (std::array<i64, 5>{5120, 6144, 4096, 32768, 0}));
  EXPECT_NE(with(llama, ":7").error().message.find("7 shards do not divide 128 heads"), std::string::npos);
  EXPECT_EQ(sizes(with(llama, ":16")), (std::array<i64, 5>{16384, 1280, 1024, 3328, 0}))
      << "8 heads of keys for 16 shards: each has one whole";
  EXPECT_FALSE(with(llama, ":0").ok());
  EXPECT_FALSE(with(llama, "x").ok());
  EXPECT_FALSE(with("[1]").ok());
  EXPECT_FALSE(
      with(R"({"hidden_size": 64, "num_attention_heads": 4, "head_dim": "16", "intermediate_size": 64})")
          .ok());
  EXPECT_FALSE(
      with(R"({"model_type": "llama", "hidden_size": 64, "num_attention_heads": 4, "intermediate_size": 40})")
          .ok());
  EXPECT_FALSE(with("{").ok());
  EXPECT_NE(with(R"({"hidden_size": 64})").error().message.find("intermediate_size"), std::string::npos);
  std::filesystem::remove_all(file.parent_path());
  EXPECT_FALSE(parse_model(file.string()).ok()) << "no file";
  for (const char* wrong : {"8192x1280x2048x3584", "8192x1280x1024x3585", "0x16x16x16", "16x16x16x16x16"})
    EXPECT_FALSE(parse_model(wrong).ok()) << wrong;
}

TEST(chain_layers, a_tuners_choices_reach_packed_products_of_every_layer) {
  const LayerSpec spec = spec_of(LayerWeights::int4, LayerParts::all);
  std::vector<ChainStep> steps = steps_of(spec, imagined_memory(spec));
  std::vector<TunedStep> choices(steps.size() / 4);
  for (size_t i = 0; i < choices.size(); ++i)
    choices[i].kernel = TunedChoice{.schedule = Schedule::narrow, .warps = static_cast<int>(i) + 1};
  put_choices(choices, steps);
  for (size_t i = 0; i < steps.size(); ++i)
    if (const auto* s = std::get_if<ProductStep>(&steps[i].work)) {
      ASSERT_TRUE(s->choice) << steps[i].name;
      EXPECT_EQ(s->choice->warps, static_cast<int>(i % choices.size()) + 1) << steps[i].name;
    }
}

TEST(chain_layers, names) {
  EXPECT_TRUE(parse_model("qwen3-8b").ok());
  EXPECT_NE(parse_model("gpt").error().message.find("llama3-70b-tp8"), std::string::npos);
  EXPECT_NE(parse_layer_weights("fp4").error().message.find("int4"), std::string::npos);
  EXPECT_EQ(name_of(LayerSpec{.parts = LayerParts::projections}),
            "llama3-8b e4m3 promoted, 1 token, projections");
}

}  // namespace
}  // namespace sluice::bench
