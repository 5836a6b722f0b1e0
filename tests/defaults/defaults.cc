// SPDX-License-Identifier: Apache-2.0
// Prints, as JSON, the defaults of C++, C and the tool when a caller gives only sizes: one value per topic,
// field and interface. The values come from the interfaces' own code. "" means that an interface lacks the
// field, or has no default for it. tools/defaults_table.py adds Python and compares.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <map>
#include <nlohmann/json.hpp>

#include <sluice/c_api/call.h>
#include <sluice/c_api/options.h>
#include <sluice/c_api/values.h>
#include <sluice/chain.h>
#include <sluice/conv.h>
#include <sluice/gemm.h>
#include <sluice/norm.h>
#include <sluice/plan/text/field_text.h>

#include "cli/chain/flags.h"
#include "cli/requests.h"

namespace sluice {
namespace {

using Values = std::map<std::string, std::string>;
using Json = nlohmann::ordered_json;

/// Returns the text without its namespaces: "bf16" of "sluice::DType::bf16".
std::string short_text(std::string text) {
  if (const size_t at = text.rfind("::"); at != std::string::npos) text = text.substr(at + 2);
  return text == "true" ? "yes" : text == "false" ? "no" : text;
}

/// Returns the values of all fields. A member of a nested struct is called "a.type".
template <class T>
void flatten(const T& value, const std::string& name, Values& values) {
  if constexpr (HasFields<T>)
    for_each_field(value, [&](const auto& row, const auto& member) {
      flatten(member, name.empty() ? row.name : name + "." + row.name, values);
    });
  else
    values[name] = short_text(text_of(value));
}
template <class T>
Values flat(const T& value) {
  Values values;
  flatten(value, "", values);
  return values;
}

/// Returns the fields of a product with packed weights that are for the caller to set.
Values packed_fields(const Problem& problem) {
  Values values;
  const Values all = flat(problem);
  for (const char* name :
       {"a.type", "a.ld", "b.packed.type", "b.packed.group", "b.packed.scale", "b.packed.zero",
        "b.packed.order", "c.ld", "d.type", "d.ld", "epilogue.scale_a", "epilogue.scale_d", "epilogue.bias",
        "epilogue.bias_type", "epilogue.activation", "epilogue.residual", "epilogue.gated", "norm_a"})
    values[name] = all.at(name);
  return values;
}

/// One table of the defaults page. Its rows are fields, in the order of the first interface, with one value
/// per interface.
class Topic {
 public:
  explicit Topic(Json& json, const char* name) : json_(json[name]) {}
  void add(const char* interface, const Values& values) {
    for (const auto& [name, value] : values) json_[name][interface] = value;
  }
  void leave_out(std::initializer_list<const char*> names) {
    for (const char* name : names) json_.erase(name);
  }
  /// Marks fields of an interface that have no default, because 0 would be a value of the caller's.
  void to_say(const char* interface, std::initializer_list<const char*> names) {
    for (const char* name : names) json_[name][interface] = "";
  }

 private:
  Json& json_;
};

/// Returns the request that the tool makes from a command line.
bench::Request request(const std::string& line) {
  CLI::App app;
  cli::RequestFlags flags;
  cli::add_many_requests_flags(app, flags);
  app.parse(line);
  return *cli::request_of(flags);
}

void add_product(Json& json) {
  sluice_problem zeros = sluice_new_call().problem;
  zeros.m = zeros.n = zeros.k = 1;
  Topic topic(json, "product");
  topic.add("cpp", flat(Problem{.m = 1, .n = 1, .k = 1}));
  topic.add("c", flat(*c_api::problem_of(zeros)));
  topic.add("tool", flat(request("--shape 1x1x1").problem));
  // These are not for the caller to set.
  topic.leave_out({"m", "n", "k", "c.type", "c.major", "c.unaligned", "d.major"});
  for (const auto& [name, value] : flat(Conv{})) topic.leave_out({("conv." + name).c_str()});
  // These are for packed weights only.
  topic.leave_out({"norm_a", "epilogue.residual_last"});
  for (const auto& [name, value] : flat(WeightFormat{}))
    for (const char* matrix : {"a", "b", "c", "d"})
      topic.leave_out({fmt::format("{}.packed.{}", matrix, name).c_str()});
}

void add_packed(Json& json) {
  sluice_problem zeros = sluice_new_call().problem;
  zeros.m = zeros.n = zeros.k = 1;
  zeros.packed = c_api::values_of(WeightFormat{});
  Topic topic(json, "packed");
  topic.add("cpp", packed_fields({.m = 1, .n = 1, .k = 1, .b = {.packed = {}}}));
  topic.add("c", packed_fields(*c_api::problem_of(zeros)));
  topic.add("tool", packed_fields(request("--shape 1x1x1 --weights uint4").problem));
  topic.to_say("c", {"b.packed.type", "b.packed.group", "b.packed.scale", "b.packed.zero", "b.packed.order"});
  topic.to_say("tool", {"b.packed.type"});
}

void add_convolution(Json& json) {
  const int64_t x_shape[] = {1, 64, 8, 8}, w_shape[] = {64, 64, 3, 3}, y_shape[] = {1, 64, 6, 6};
  const int64_t x_strides[] = {4096, 1, 512, 64}, w_strides[] = {576, 1, 192, 64},
                y_strides[] = {2304, 1, 384, 64};
  const auto array = [](const int64_t* shape, const int64_t* strides) {
    return sluice_array{
        .dtype = SLUICE_BF16, .ndim = 4, .device_type = SLUICE_ON_CUDA, .shape = shape, .strides = strides};
  };
  const sluice_array x = array(x_shape, x_strides), w = array(w_shape, w_strides),
                     y = array(y_shape, y_strides);
  sluice_call call = sluice_new_call();
  call.problem.conv.op = SLUICE_FPROP, call.problem.conv.spatial = 2;
  call.operands[SLUICE_A] = &x, call.operands[SLUICE_B] = &w, call.operands[SLUICE_D] = &y;
  if (sluice_describe(&call) != SLUICE_OK) std::puts(sluice_error_message());
  const Conv sizes{
      .op = ConvOp::fprop, .channels = 64, .filters = 64, .size = {8, 8, 1}, .filter = {3, 3, 1}};
  const auto fields = [](const Conv& conv) {
    Values values = flat(conv);
    for (const char* said : {"op", "spatial", "images", "channels", "filters"}) values.erase(said);
    std::erase_if(values, [](const auto& row) {
      return row.first.starts_with("size") || row.first.starts_with("filter");
    });
    return values;
  };
  Topic topic(json, "convolution");
  topic.add("cpp", fields(sizes));
  topic.add("c", fields(c_api::problem_of(call.problem)->conv));
  topic.add("tool", fields(request("--conv fprop --input 1x64x8x8 --filter 64x3x3").problem.conv));
  topic.to_say("c", {"x_pitch", "y_pitch"});  // strides, which come from the arrays
}

void add_scalars(Json& json) {
  const bench::Request tool = request("--shape 1x1x1 --residual");
  const auto number = [](float value) { return fmt::format("{:g}", value); };
  Topic topic(json, "scalars");
  topic.add("cpp", {{"alpha", number(gemm::Args{}.alpha)},
                    {"beta", number(gemm::Args{}.beta)},
                    {"convolution beta", number(conv::Tensors{}.beta)},
                    {"norm epsilon", number(NormArgs{}.epsilon)},
                    {"packed epsilon", number(gemm::Args{}.epsilon)}});
  const sluice_call c = sluice_new_call();
  topic.add("c",
            {{"alpha", number(c.alpha)}, {"beta", number(c.beta)}, {"packed epsilon", number(c.epsilon)}});
  topic.add("tool", {{"alpha", number(tool.alpha)}, {"beta", number(tool.beta)}});
}

void add_chain(Json& json) {
  const ChainOptions cpp;
  CLI::App app;
  cli::ChainFlags flags;
  cli::add_chain_flags(app, flags);
  app.parse("--trigger at_start");
  const bench::ChainCase item = cli::cases_of(flags)->front();
  const auto values = [](const ChainOptions& o) {
    return Values{{"overlap", name_of(o.overlap)},
                  {"trigger", name_of(o.trigger)},
                  {"spacing", name_of(o.spacing)},
                  {"hand_off_bytes", std::to_string(o.hand_off_bytes)},
                  {"prefetch_bytes", std::to_string(o.prefetch_bytes)},
                  {"smem_limit", std::to_string(o.smem_limit)},
                  {"most_stages", std::to_string(o.most_stages)}};
  };
  Topic topic(json, "chain");
  topic.add("cpp", values(cpp));
  topic.add("tool", values(item.arms.back().options));
  topic.add("cpp", {{"accumulate", name_of(Problem{}.accumulate)}});
  topic.add("tool", {{"accumulate", name_of(item.spec.accumulate)}});
}

/// Without the folders: C++ takes the caller's, the others those of the environment.
void add_options(Json& json) {
  for (const char* name : {"SLUICE_CACHE_READ_ONLY", "SLUICE_JOBS", "SLUICE_RACE"}) unsetenv(name);
  const auto values = [](const Options& o) {
    return Values{{"cache_read_only", o.cache_read_only ? "yes" : "no"},
                  {"jobs", std::to_string(o.jobs)},
                  {"race", o.race == kUsualRace ? "3 in prepare" : std::to_string(o.race)}};
  };
  Topic topic(json, "options");
  topic.add("cpp", values(Options{}));
  topic.add("c", values(*c_api::options_of(nullptr)));
  topic.add("tool", values(options_from_environment()));
  topic.add("cpp", {{"candidates of a race", std::to_string(kUsualRacers)}});
  topic.to_say("c", {"candidates of a race"});
}

}  // namespace
}  // namespace sluice

int main() {
  nlohmann::ordered_json json;
  sluice::add_product(json);
  sluice::add_packed(json);
  sluice::add_convolution(json);
  sluice::add_scalars(json);
  sluice::add_chain(json);
  sluice::add_options(json);
  std::puts(json.dump(1).c_str());
}
