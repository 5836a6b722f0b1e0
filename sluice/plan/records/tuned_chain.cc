// SPDX-License-Identifier: Apache-2.0
// The JSON form of a tuned chain: one object per step, with the fields of record_fields.h.
#include <sluice/plan/records/tuned_chain.h>

#include <algorithm>
#include <iterator>

#include <sluice/plan/records/record_fields.h>

namespace sluice {
namespace {

using namespace record_json;

constexpr const char* kTunedStepKind = "step";

/// A step's kind by name, with an empty recipe and kernel of that kind.
struct Kind {
  const char* name;
  StepRecipe recipe;
};
constexpr Kind kKinds[] = {{"product", Recipe{}},
                           {"packed product", kPackedRecipe},
                           {"norm", NormRecipe{}},
                           {"quantiser", QuantizerRecipe{}},
                           {"foreign", ForeignRecipe{}}};
bool is_packed_step(const StepRecipe& recipe) {
  const auto* product = std::get_if<Recipe>(&recipe);
  return product != nullptr && is_packed(*product);
}
const char* kind_of(const StepRecipe& recipe) {
  const auto same = [&](const Kind& kind) {
    return kind.recipe.index() == recipe.index() && is_packed_step(kind.recipe) == is_packed_step(recipe);
  };
  return std::find_if(std::begin(kKinds), std::end(kKinds), same)->name;
}

template <class Visitor, class Step>
void step_fields(Visitor& v, Step& step) {
  std::visit([&](auto& recipe) { recipe_fields(v, recipe); }, step.recipe);
  if (is_packed_step(step.recipe)) packed_step_fields(v, std::get<Recipe>(step.recipe));
  if (step.choice.kernel) choice_fields(v, *step.choice.kernel);
  v.choice("wait", step.choice.overlap.wait);
  v.choice("trigger", step.choice.overlap.trigger);
  v.choice_or("spacing", Spacing::memory, step.choice.overlap.spacing);
  v.number("hand_off_bytes", step.choice.hand_off_bytes, {0, kMaxInt});
  v.number("prefetch_bytes", step.choice.prefetch_bytes, {0, kMaxInt});
}

/// Visits every field except the steps, in the order of the file.
template <class Visitor, class Chain>
void fields(Visitor& v, Chain& c, int& version) {
  v.number("version", version, {kTunedChainVersion, kTunedChainVersion});
  v.text("gpu", c.gpu);
  v.number("sm_count", c.sm_count, {1, 4096});
  v.text("name", c.name);
  v.time("us", c.us, false);
  v.time("off_us", c.off_us, false);
  v.text("sluice", c.sluice);
  v.text("driver", c.driver);
  v.date("date", c.date);
}

Json steps_json(const std::vector<TunedChain::Step>& steps) {
  Json list = Json::array();
  for (const TunedChain::Step& step : steps) {
    Writer one;
    one.text(kTunedStepKind, kind_of(step.recipe));
    step_fields(one, step);
    list.push_back(one.take());
  }
  return list;
}

std::string read_step(const Json& json, TunedChain::Step& step) {
  if (!json.is_object()) return std::string("must be a JSON object") + kRemedy;
  const auto found = json.find(kTunedStepKind);
  const auto kind = std::find_if(std::begin(kKinds), std::end(kKinds), [&](const Kind& k) {
    return found != json.end() && found->is_string() && found->get_ref<const std::string&>() == k.name;
  });
  if (kind == std::end(kKinds)) {
    std::string names;
    for (const Kind& k : kKinds) names += (names.empty() ? "" : ", ") + std::string(k.name);
    return std::string("\"") + kTunedStepKind + "\" must be one of: " + names + kRemedy;
  }
  step = {.recipe = kind->recipe};
  if (std::holds_alternative<Recipe>(step.recipe))
    step.choice.kernel = is_packed_step(step.recipe) ? kDecoder : TunedChoice{};
  Reader reader(json);
  std::string name;
  reader.text(kTunedStepKind, name);
  step_fields(reader, step);
  return reader.verdict(kTunedChainVersion);
}

}  // namespace

bool same_key(const TunedChain& x, const TunedChain& y) {
  return x.gpu == y.gpu && x.sm_count == y.sm_count &&
         std::equal(x.steps.begin(), x.steps.end(), y.steps.begin(), y.steps.end(),
                    [](const auto& a, const auto& b) { return a.recipe == b.recipe; });
}

std::string to_json(const TunedChain& chain) {
  int version = kTunedChainVersion;
  Writer writer;
  fields(writer, chain, version);
  writer.list(kTunedChainSteps, steps_json(chain.steps));
  return writer.line();
}

std::string to_json(const TunedTrial& trial) {
  Writer writer;
  writer.text("gpu", trial.gpu);
  writer.text("axis", trial.axis);
  writer.text("what", trial.what);
  writer.time("incumbent_us", trial.incumbent_us, false);
  writer.time("candidate_us", trial.candidate_us, false);
  writer.time("candidate_p90_us", trial.candidate_p90_us, false);
  writer.flag("kept", trial.kept);
  writer.list(kTunedChainSteps, steps_json(trial.steps));
  return writer.line();
}

std::string record_json::read_tuned_chain(const Json& json, TunedChain& chain) {
  int version = 0;
  Reader reader(json);
  fields(reader, chain, version);
  const Json* steps = reader.list(kTunedChainSteps);
  for (std::size_t i = 0; steps != nullptr && i < steps->size(); ++i) {
    chain.steps.emplace_back();
    if (const std::string broken = read_step((*steps)[i], chain.steps.back()); !broken.empty())
      return "step " + std::to_string(i) + ": " + broken;
  }
  return reader.verdict(kTunedChainVersion);
}

}  // namespace sluice
