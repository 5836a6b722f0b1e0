// SPDX-License-Identifier: Apache-2.0
// Lists what a refactoring must not change: the units of every registered kernel, and every plan of the
// problem lists. Compiles units on request. tools/unchanged.py runs it and stores hashes.
//   sluice_unchanged list DIR         writes names, units, headers and plans below DIR
//   sluice_unchanged compile DIR N..  writes DIR/units/N.cubin, and prints a line "N REGISTERS" for each
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <sstream>

#include <sluice/chain.h>
#include <sluice/check/packed_check.h>
#include <sluice/check/verify_units.h>
#include <sluice/plan/text/expert_units.h>
#include <sluice/plan/text/norm_units.h>
#include <sluice/plan/text/pack_units.h>
#include <sluice/plan/text/quantize_units.h>
#include <sluice/plan/text/units.h>
#include <sluice/rows.h>
#include <sluice/run/device/locate.h>
#include <sluice/run/jit/compiler.h>
#include <sluice/run/jit/embedded_files.h>

#include "bench/chain/layers.h"
#include "bench/shapes.h"
#include "cli/requests.h"
#include "tests/compile/plain_configs.h"
#include "tests/gpu/sanitize_pool.h"
#include "tests/packed_problems.h"
#include "tests/plans/plan_file.h"
#include "tests/registered_configs.h"
#include "tests/unit/packed_formats.h"

namespace sluice::unchanged {
namespace {

namespace fs = std::filesystem;

constexpr const char* kGpus[] = {"h200", "h100"};

void write(const fs::path& path, std::string_view text) {
  fs::create_directories(path.parent_path());
  std::ofstream(path, std::ios::binary) << text;
}

/// Source texts of units by name. Equal texts are stored once.
class Units {
 public:
  explicit Units(fs::path folder) : folder_(std::move(folder)) {}

  void add(const std::string& name, const std::string& text) {
    if (!seen_.insert(text).second) return;
    write(folder_ / "units" / fmt::format("{}.cu", count_), text);
    names_ += fmt::format("{}\t{}\n", count_++, name);
  }
  void add(const std::string& name, const std::vector<std::string>& texts) {
    for (const std::string& text : texts) add(name, text);
  }
  void finish() const { write(folder_ / "units.txt", names_); }

 private:
  fs::path folder_;
  std::set<std::string> seen_;
  std::string names_;
  int count_ = 0;
};

void add_dense(Units& units) {
  int i = 0;
  for (const KernelConfig& config : registered_configs()) {
    const std::string name = fmt::format("{} {}", i++, short_name(config));
    units.add("dense " + name, unit_text(config));
    if (config.combine == Combine::separate) units.add("sum_parts " + name, sum_unit_text(config));
  }
  i = 0;
  for (const KernelConfig& config : test::plain_configs())
    units.add(fmt::format("plain {} {}", i++, short_name(config)), unit_text(config));
}

void add_packed(Units& units) {
  const auto add = [&](const char* pool, const auto& configs) {
    int i = 0;
    for (const auto& config : configs)
      units.add(fmt::format("{} {} {}", pool, i++, short_name(config)), unit_text(config));
  };
  add("packed narrow", testing::sanitize_narrow_pool());
  add("packed strip", testing::sanitize_strip_pool());
  add("packed wide", testing::sanitize_wide_pool());
  int i = 0;
  const Result<std::vector<Problem>> set = bench::problem_set("packed");
  for (const Problem& problem : *set)
    if (const auto plan = gemm::plan(problem, DeviceInfo{}))
      units.add(fmt::format("packed set {} {}", i++, short_name(plan->config)), unit_text(plan->config));
}

void add_norms(Units& units) {
  for (const NormStore store : {NormStore::plain, NormStore::tensor, NormStore::row, NormStore::row_block})
    for (const DType input : {DType::bf16, DType::fp16})
      for (const Overlap overlap :
           {Overlap{}, Overlap{Wait::first, Trigger::at_start}, Overlap{Wait::first, Trigger::after_loads}})
        units.add(fmt::format("norm {} {} {}", name_of(store), name_of(input), name_of(overlap.trigger)),
                  norm_units(input, store, overlap));
}

void add_quantisers(Units& units) {
  const auto add = [&](DType input, std::optional<Granularity> granularity, Gate gate, Overlap overlap) {
    units.add(
        fmt::format("quantise {} {} {} {} {}", granularity ? name_of(*granularity) : "gate", name_of(input),
                    static_cast<int>(gate), name_of(overlap.wait), name_of(overlap.trigger)),
        quantize_units(input, granularity, gate, overlap));
  };
  for (const Granularity granularity : kGranularities)
    for (const Gate gate : {Gate::none, Gate::silu}) {
      for (const DType input : {DType::bf16, DType::fp16, DType::fp32}) add(input, granularity, gate, {});
      add(DType::bf16, granularity, gate, {Wait::first, Trigger::after_loads});
    }
  for (const DType input : {DType::bf16, DType::fp16})
    for (const Overlap overlap : {Overlap{}, Overlap{Wait::first, Trigger::after_loads}})
      add(input, {}, Gate::silu, overlap);
}

void add_experts(Units& units) {
  for (const Overlap overlap : {Overlap{}, Overlap{Wait::first, Trigger::at_start}}) {
    const std::string name = name_of(overlap.trigger);
    for (const bool wide : {false, true})
      units.add(fmt::format("route {} {}", wide ? "int64" : "int32", name), route_unit_text({wide, overlap}));
    for (const DType type : {DType::bf16, DType::fp16}) {
      units.add(fmt::format("combine {} {}", name_of(type), name), combine_units(type, overlap));
      units.add(fmt::format("gather {} {}", name_of(type), name),
                quantize_units(type, {}, Gate::none, overlap, true));
      for (const Granularity granularity : kGranularities)
        units.add(fmt::format("gather {} {} {}", name_of(granularity), name_of(type), name),
                  quantize_units(type, granularity, Gate::none, overlap, true));
    }
  }
}

void add_helpers(Units& units) {
  for (const WeightFormat& format : test::all_formats()) {
    if (format.scale == DType::bf16 || (format.group != 0 && format.group != 64)) continue;
    for (const CodeStorage storage : {CodeStorage::byte, CodeStorage::nibble})
      for (const PackStep step : {PackStep::pack, PackStep::unpack})
        if (storage == CodeStorage::byte || code_bits(format.type) == 4)
          units.add(fmt::format("{} {}, codes a {}", step == PackStep::pack ? "pack" : "unpack",
                                describe(format), name_of(storage)),
                    pack_unit_text({step, format, storage}));
  }
  units.add("verify fill", verify_unit_text(VerifyUnit::fill));
  units.add("verify check", verify_unit_text(VerifyUnit::check));
  units.add("packed reference", packed::reference_unit_text());
  units.add("locate", locate_unit_text());
}

/// Texts of plans by name. Lines that contain "=" are choices, other lines are descriptions.
class Plans {
 public:
  void add(const std::string& name, const std::string& choice, const std::string& text) {
    text_ += fmt::format("{}\n", name);
    indent(" = ", choice);
    indent("   ", text);
  }
  const std::string& text() const { return text_; }

 private:
  void indent(const char* prefix, const std::string& text) {
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) text_ += prefix + line + "\n";
  }
  std::string text_;
};

std::string choice_text(const Plan& plan) {
  if (is_packed(plan.problem))
    return fmt::format("{}\nsmem {} weights {} {}", to_string(plan.config), plan.smem_bytes,
                       blob_bytes(plan.problem), name_of(plan.source));
  return fmt::format("{}\n{}\nsmem {} workspace {} {}", to_string(plan.config), to_string(plan.split),
                     plan.smem_bytes, plan.workspace_bytes, name_of(plan.source));
}

void add_plan(Plans& plans, const std::string& name, const Result<Plan>& plan) {
  if (plan)
    plans.add(name, choice_text(*plan), describe(*plan));
  else
    plans.add(name, plan.error().message, "");
}

void add_request(Plans& plans, const std::string& name, const bench::Request& request) {
  for (const char* gpu : kGpus)
    add_plan(plans, fmt::format("{} {}", gpu, name),
             gemm::plan(request.problem, *gpu_named(gpu), request.overrides));
}

std::vector<fs::path> text_files(const char* folder) {
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(fs::path(SLUICE_SOURCE_DIR) / folder))
    if (entry.path().extension() == ".txt") files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  return files;
}

/// Adds the dense and packed plans of the plan files: for the GPU that a file names, and for every other GPU.
void add_plan_files(Plans& plans) {
  for (const fs::path& file : text_files("tests/plans")) {
    std::ostringstream text;
    text << std::ifstream(file).rdbuf();
    for (const plans::Entry& entry : plans::parse_file(text.str())) {
      if (!entry.request) continue;
      Result<plans::Request> request = plans::parse_request(entry.text);
      const std::string name = fmt::format("{} {}", file.stem().string(), entry.text);
      plans.add("as written " + name, request ? plans::outcome(*request) : request.error().message, "");
      for (const char* gpu : kGpus) {
        if (!request) continue;
        request->device = *gpu_named(gpu);
        plans.add(fmt::format("{} {}", gpu, name), plans::outcome(*request), "");
      }
    }
  }
}

bool add_shapes(Plans& plans) {
  for (const fs::path& file : text_files("bench/shapes"))
    // Plan files of convolutions do not name the operation.
    for (const char* op : {"", "fprop", "dgrad", "wgrad"}) {
      if ((*op == '\0') == file.stem().string().starts_with("conv_")) continue;
      cli::RequestFlags defaults;
      defaults.conv.op = op;
      const auto requests = cli::read_problem_file(file.string(), defaults);
      if (!requests) return std::fprintf(stderr, "%s\n", requests.error().message.c_str()), false;
      int i = 0;
      for (const bench::Request& request : *requests)
        add_request(plans, fmt::format("{} {} {}", file.stem().string(), i++, bench::name_of(request)),
                    request);
    }
  for (const std::string& set : bench::set_names()) {
    const auto problems = bench::problem_set(set);
    if (!problems) return false;
    int packed = 0;
    for (const Problem& problem : *problems)
      add_request(plans,
                  is_packed(problem) ? fmt::format("set mixed {}", packed++)
                                     : fmt::format("set {} {}", set, bench::name_of(problem)),
                  bench::request_of(problem));
  }
  return true;
}

bool add_rows(Plans& plans) {
  const auto requests = cli::read_problem_file(SLUICE_SOURCE_DIR "/bench/shapes/rows.txt");
  if (!requests) return false;
  for (const bench::Request& request : *requests)
    for (const char* gpu : kGpus) {
      const DeviceInfo info = *gpu_named(gpu);
      const Result<gemm::RowTable> table = gemm::plan_rows(request.problem, {1, 512}, info);
      plans.add(fmt::format("{} rows 1..512 {}", gpu, bench::name_of(request.problem)),
                table ? describe(*table, info) : table.error().message, "");
    }
  return true;
}

/// Adds chains of two layers of each model, with every fusion and every overlap.
void add_chains(Plans& plans) {
  using namespace bench;
  for (const Model& model : known_models())
    for (const LayerWeights weights : {LayerWeights::e4m3, LayerWeights::bf16, LayerWeights::int4})
      for (const Fusion fusion : {Fusion::none, Fusion::gated, Fusion::residual, Fusion::norm})
        for (const i64 tokens : {1, 16, 64}) {
          LayerSpec spec{.model = model, .weights = weights, .tokens = tokens, .layers = 2, .passes = 1};
          if (why_not_fused(spec, fusion) != nullptr) continue;
          spec = fused(spec, fusion);
          const std::vector<ChainStep> steps = steps_of(spec, imagined_memory(spec));
          for (const ChainOverlap overlap :
               {ChainOverlap::off, ChainOverlap::weights_first, ChainOverlap::tuned})
            for (const char* gpu : kGpus) {
              const auto plan =
                  plan_chain(steps, *gpu_named(gpu),
                             {.overlap = overlap, .hand_off_bytes = 4 << 20, .prefetch_bytes = 0});
              plans.add(
                  fmt::format("{} chain {} {} {}", gpu, name_of(spec), name_of(fusion), name_of(overlap)),
                  plan ? explain(*plan) : plan.error().message, "");
            }
        }
}

int list(const fs::path& folder) {
  Units units(folder);
  add_dense(units);
  add_packed(units);
  add_norms(units);
  add_quantisers(units);
  add_experts(units);
  add_helpers(units);
  units.finish();
  for (const EmbeddedFile& file : embedded_files()) write(folder / "headers" / file.path, file.text);
  Plans plans;
  add_plan_files(plans);
  if (!add_shapes(plans) || !add_rows(plans)) return 1;
  add_chains(plans);
  write(folder / "plans.txt", plans.text());
  return 0;
}

int compile(const fs::path& folder, const std::vector<std::string>& numbers) {
  const auto compiler = Compiler::load("");
  if (!compiler) return std::fprintf(stderr, "%s\n", compiler.error().message.c_str()), 1;
  for (const std::string& number : numbers) {
    std::ostringstream unit;
    unit << std::ifstream(folder / "units" / (number + ".cu")).rdbuf();
    const Result<Cubin> cubin = (*compiler)->compile(unit.str());
    if (!cubin) return std::fprintf(stderr, "%s\n", cubin.error().message.c_str()), 1;
    write(folder / "units" / (number + ".cubin"), cubin->image);
    std::printf("%s %d\n", number.c_str(), cubin->report.registers);
    std::fflush(stdout);
  }
  return 0;
}

}  // namespace
}  // namespace sluice::unchanged

int main(int count, char** words) {
  const std::vector<std::string> args(words + 1, words + count);
  if (args.size() == 2 && args[0] == "list") return sluice::unchanged::list(args[1]);
  if (args.size() > 2 && args[0] == "compile")
    return sluice::unchanged::compile(args[1], {args.begin() + 2, args.end()});
  std::fprintf(stderr, "usage: sluice_unchanged list DIR, or compile DIR NUMBER...\n");
  return 2;
}
