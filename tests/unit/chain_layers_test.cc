// SPDX-License-Identifier: Apache-2.0
// Layers as chains: every step reads what the one before it wrote, and the sizes are the models'. How this
// can fail: with `o` reading attention's width as its leading dimension where there is no quantiser, and with
// kDown and kO exchanged.
#include <gtest/gtest.h>

#include <set>

#include <sluice/host/chain.h>

#include "bench/layers.h"

namespace sluice::bench {
namespace {

const void* input_of(const ChainStep& step) {
  if (const auto* s = std::get_if<ProductStep>(&step.work)) return s->args.a;
  if (const auto* s = std::get_if<MixedStep>(&step.work)) return s->args.x;
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

TEST(chain_layers, bytes_are_the_models) {
  // In millions of weights: research/prefetch-pdl.md, section 2.
  EXPECT_EQ(weight_bytes({.model = kModels[0]}) / 100'000, 2181);
  EXPECT_EQ(weight_bytes({.model = kModels[1]}) / 100'000, 1069);
  EXPECT_EQ(weight_bytes({.model = kModels[2]}) / 100'000, 1929);
  EXPECT_EQ(weight_bytes({.model = kModels[0], .weights = LayerWeights::bf16}) / 200'000, 2181);
  EXPECT_EQ(weight_bytes({.model = kModels[0], .weights = LayerWeights::int4}),
            weight_bytes({.model = kModels[0]}) * 4125 / 8000);
}

TEST(chain_layers, plan_as_chains) {
  for (const Model& model : kModels)
    for (const LayerWeights weights : kAllWeights)
      for (const LayerParts parts : {LayerParts::all, LayerParts::projections}) {
        LayerSpec spec = spec_of(weights, parts);
        spec.model = model;
        const auto plan =
            plan_chain(steps_of(spec, imagined_memory(spec)), DeviceInfo{}, {.warm_bytes = 1 << 20});
        ASSERT_TRUE(plan.ok()) << name_of(spec) << ": " << plan.error().message;
        EXPECT_LE(plan->products.size(), 3 * kLayerProducts);
      }
}

TEST(chain_layers, ratios_become_bytes_of_every_product) {
  const LayerSpec spec = spec_of(LayerWeights::e4m3, LayerParts::projections);
  const std::vector<ChainStep> steps = steps_of(spec, imagined_memory(spec), 0.5);
  EXPECT_EQ(steps[0].prefetch_bytes, 4096 * 6144 / 4);
  EXPECT_FALSE(steps_of(spec, imagined_memory(spec))[0].prefetch_bytes.has_value());
}

TEST(chain_layers, names) {
  EXPECT_TRUE(parse_model("qwen3-8b").ok());
  EXPECT_NE(parse_model("gpt").error().message.find("llama3-70b-tp8"), std::string::npos);
  EXPECT_NE(parse_layer_weights("fp4").error().message.find("int4"), std::string::npos);
  EXPECT_EQ(name_of(LayerSpec{.parts = LayerParts::projections}), "llama3-8b e4m3, 1 token, projections");
}

}  // namespace
}  // namespace sluice::bench
