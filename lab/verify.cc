// SPDX-License-Identifier: Apache-2.0
// `sluice_lab verify`: checks this build on this machine with random problems, comparing every element of D.
// On a GPU, whole numbers are compared bit for bit with fp64, and real numbers within bounds. Without a GPU,
// dense problems run on the host twin and packed ones are computed from the blob. Problems with an even index
// have whole numbers, which show every wrong bit. Those with an odd index have real numbers and any
// activation.
#include <fmt/format.h>

#include <map>
#include <memory>
#include <optional>

#include <sluice/bench/request.h>
#include <sluice/check/packed_check.h>
#include <sluice/check/verify.h>
#include <sluice/messages/errors.h>
#include <sluice/run/driver/events.h>
#include <sluice/try.h>

#include "bench/host/host_problem.h"
#include "bench/host/packed_host.h"
#include "cli/bounded.h"
#include "cli/measure_flags.h"
#include "cli/requests.h"
#include "cli/target.h"
#include "cli/terminal.h"
#include "cli/value_checks.h"
#include "cli/watchdog.h"
#include "lab/random/problem.h"
#include "lab/verbs.h"
#include "lab/verify_records.h"

namespace sluice::lab {

using namespace cli;  // flags, tables, progress
namespace {

constexpr i64 kLargestOnGpu = 1024, kLargestOnHost = 160;
constexpr int kShownFailures = 5;
constexpr const char* kAnyOp = "any";

struct VerifyFlags {
  std::string device = "auto";
  int problems = 100;
  u64 seed = 1;
  i64 largest = 0;  // upper limit of sizes; 0: 1024 on a GPU, 160 on the host
  int hang_s = 60;
  bool any_strides = false;
};

/// Result of checking one problem.
struct Finding {
  Verdict verdict = Verdict::wrong;
  std::string text;
};

/// Counts of the results so far. Refused problems are counted by message, because there are few distinct
/// messages.
struct Tally {
  int right = 0, wrong = 0, not_judged = 0, refusals = 0;
  std::map<std::string, int> refused;

  void refuse(const std::string& why) {
    ++refusals;
    ++refused[why];
  }
  void count(const Finding& found, const std::string& problem) {
    if (found.verdict == Verdict::right)
      ++right;
    else if (found.verdict == Verdict::not_judged)
      ++not_judged;
    else if (wrong++ < kShownFailures)
      fmt::print("{}: {}\n  {}\n", paint(stdout, Colour::red, "wrong"), problem, found.text);
  }
};

/// Checks random dense problems, or convolutions with --conv, with the plans that the planner makes.
/// Verifier, stream and workspace are made only if there is a GPU.
class DenseChecks {
 public:
  static constexpr const char* kHost = "the host twin";

  static Result<DenseChecks> create(const RequestFlags& flags, const Target& target) {
    DenseChecks made;
    made.convolutions_ = is_conv(flags.conv);
    if (made.convolutions_ && flags.conv.op != kAnyOp) {
      SLUICE_TAKE(made.op_, op_of(flags.conv));
    }
    if (!target.device) return made;
    SLUICE_TAKE(made.verifier_, Verifier::create(*target.device));
    SLUICE_TAKE(StreamHandle stream, StreamHandle::create(*target.device));
    made.stream_ = std::make_shared<const StreamHandle>(std::move(stream));
    SLUICE_TAKE(made.workspace_, Workspace::create(*target.device));
    return made;
  }

  Result<Plan> plan(const RandomSpec& spec, int index, const Target& target) const {
    SLUICE_TAKE(const Problem problem,
                convolutions_ ? random_conv(spec, op_, index) : Result<Problem>(random_problem(spec, index)));
    if (!target.device) return bench::plan_with_roles(problem, {}, target.records);
    return gemm::plan(problem, target.info(), {}, target.records);
  }
  Result<Comparison> on_gpu(const gemm::Kernel& kernel, bool exact, u64 seed) const {
    const Problem& p = kernel.plan().problem;
    const Stream stream = stream_->get();
    SLUICE_TAKE(const ProblemData data,
                verifier_->make_data(p, exact ? exact_data(p, seed) : real_data(p, seed), stream));
    gemm::Args args = data.args();
    args.workspace = workspace_->view();
    SLUICE_TRY(gemm::launch(kernel, args, stream));
    return verifier_->check(data, {.judge = exact ? Judge::exact : Judge::bounded}, stream);
  }
  Result<Finding> on_host(const Plan& plan, bool, u64 seed) const {
    bench::HostProblem problem(plan.problem, 1.25f, plan.problem.epilogue.residual ? -0.5f : 0.0f, seed);
    if (const Result<twin::TwinReport> ran = problem.run(plan, seed); !ran)
      return Finding{Verdict::wrong, ran.error().message};
    const bench::HostComparison found = problem.compare();
    return Finding{found.passed() ? Verdict::right : Verdict::wrong, describe(found)};
  }

 private:
  std::optional<Verifier> verifier_;
  std::shared_ptr<const StreamHandle> stream_;
  std::optional<Workspace> workspace_;
  bool convolutions_ = false;
  std::optional<ConvOp> op_;
};

/// Checks random packed products. Parts of the format that no flag fixes are drawn at random.
class PackedChecks {
 public:
  static constexpr const char* kHost = "the CPU, through the packed blob";

  static Result<PackedChecks> create(const RequestFlags& flags, const Target& target) {
    SLUICE_TAKE(const WeightFormat format, format_of(flags.packed));
    if (const char* rule = validate(format))
      return Error{ErrorCode::invalid_argument, fmt::format("--weights {}: {}", flags.packed.weights, rule)};
    const auto open = [&](const std::string& name) {
      for (const CLI::Option* option : flags.packed.format_options)
        if (option->get_name() == name && option->count() > 0) return false;
      return true;
    };
    PackedChecks made;
    made.device_ = target.device;
    made.formats_ = {.fixed = format,
                     .any_group = open("--group"),
                     .any_scale = open("--weight-scale"),
                     .any_zero = open("--zero") && flags.packed.weights != "int4"};
    SLUICE_TAKE(made.overrides_, overrides_of(flags.problem));
    return made;
  }

  Result<Plan> plan(const RandomSpec& spec, int index, const Target& target) const {
    return gemm::plan(random_packed_problem(spec, formats_, index), target.info(), overrides_,
                      target.records);
  }
  Result<Comparison> on_gpu(const gemm::Kernel& kernel, bool exact, u64 seed) const {
    SLUICE_TAKE(packed::HostData host, packed::random_data(kernel.plan().problem, kind_of(exact), seed));
    SLUICE_TAKE(const packed::DeviceData data, packed::DeviceData::create(*device_, std::move(host)));
    SLUICE_TRY(gemm::launch(kernel, data.args(), nullptr));
    return data.check(0, packed::rounding_of(kernel.plan().config));
  }
  Result<Finding> on_host(const Plan& plan, bool exact, u64 seed) const {
    SLUICE_TAKE(const Comparison found, bench::compare_on_host(plan.problem, kind_of(exact), seed));
    return Finding{found.verdict(), describe(found)};
  }

 private:
  static packed::DataKind kind_of(bool exact) {
    return exact ? packed::DataKind::exact : packed::DataKind::real;
  }
  std::optional<Device> device_;
  FormatSpec formats_;
  PlanOverrides overrides_;
};

bool is_exact(int index) {
  return index % 2 == 0;
}

template <class Checks>
Result<void> verify_all(const VerifyFlags& flags, const Target& target, const Checks& checks, Tally& tally) {
  std::vector<int> indices;
  std::vector<Plan> plans;
  for (int i = 0; i < flags.problems; ++i) {
    const i64 largest = flags.largest > 0 ? flags.largest : target.device ? kLargestOnGpu : kLargestOnHost;
    auto plan = checks.plan({.seed = flags.seed,
                             .largest = largest,
                             .exact = is_exact(i),
                             .scattered = flags.any_strides,
                             .groups = true,
                             .slots = target.device.has_value()},
                            i, target);
    if (!plan) {
      tally.refuse(plan.error().message);
      continue;
    }
    indices.push_back(i);
    plans.push_back(*std::move(plan));
  }
  std::vector<Result<gemm::Kernel>> kernels;
  if (target.device) {
    Progress compiling("compile");
    kernels =
        gemm::prepare(*target.device, plans, [&](int done, int total) { compiling.update(done, total); });
    compiling.clear();
  }
  Progress bar("verify");
  Watchdog watchdog(target.device ? flags.hang_s : 0);
  for (size_t i = 0; i < plans.size(); ++i) {
    const std::string name = fmt::format("{}\n  {}", to_string(plans[i].problem), to_string(plans[i].config));
    bar.update(static_cast<int>(i), static_cast<int>(plans.size()), bench::name_of(plans[i].problem));
    watchdog.step(name);
    const bool exact = is_exact(indices[i]);
    const u64 seed = flags.seed + static_cast<u64>(indices[i]);
    Finding found;
    if (target.device) {
      if (!kernels[i]) return kernels[i].error();
      SLUICE_TAKE(const Comparison compared, checks.on_gpu(*kernels[i], exact, seed));
      found = {compared.verdict(), describe(compared)};
    } else {
      SLUICE_TAKE(found, checks.on_host(plans[i], exact, seed));
    }
    if (found.verdict != Verdict::right) bar.clear();
    tally.count(found, name);
  }
  return {};
}

template <class Checks>
Result<int> run_checks(const VerifyFlags& flags, const RequestFlags& request) {
  // First on no device, so that a bad flag is reported before a missing GPU.
  SLUICE_TRY(Checks::create(request, {}));
  SLUICE_TAKE(const Target target, find_target(flags.device, options_from_environment()));
  if (!target.why_host.empty()) fmt::print("on {} (no usable GPU: {})\n", Checks::kHost, kAskDoctor);
  SLUICE_TAKE(const Checks checks, Checks::create(request, target));
  Tally tally;
  SLUICE_TRY(verify_all(flags, target, checks, tally));
  for (const auto& [why, times] : tally.refused) fmt::print("refused {}: {}\n", counted(times, "time"), why);
  const bool right = tally.wrong == 0 && tally.right > 0;
  fmt::print("{} on {}: {}\n", counted(flags.problems, "problem"),
             target.device ? target.device->info().name : Checks::kHost,
             paint(stdout, right ? Colour::green : Colour::red,
                   fmt::format("{} right, {} wrong, {}{} refused", tally.right, tally.wrong,
                               tally.not_judged > 0 ? fmt::format("{} not judged, ", tally.not_judged) : "",
                               tally.refusals)));
  return right ? kExitOk : kExitNo;
}

Result<int> run_verify(const VerifyFlags& flags, const RequestFlags& request) {
  SLUICE_TRY(refuse_packed_convolution(request));
  if (is_packed(request.packed)) return run_checks<PackedChecks>(flags, request);
  SLUICE_TRY(check_dense(request.packed));
  SLUICE_TRY(refuse_given(request.override_options, "without --weights: dense plans are the planner's"));
  return run_checks<DenseChecks>(flags, request);
}

Result<int> run_records(const VerifyFlags& flags, VerifyRecordsFlags records) {
  SLUICE_TAKE(const Device device,
              gpu_of(flags.device, options_from_environment(),
                     "--records launches the kernels that records choose: without a GPU, leave it out"));
  records.seed = flags.seed;
  records.hang_s = flags.hang_s;
  return verify_records(records, device);
}

}  // namespace

Verb add_verify_verb(CLI::App& app) {
  auto flags = std::make_shared<VerifyFlags>();
  auto request = std::make_shared<RequestFlags>();
  CLI::App* verb = app.add_subcommand(
      "verify",
      "Check random problems against fp64; with --weights, products of packed weights; with --conv, "
      "convolutions");
  bounded(verb->add_option("--problems", flags->problems, "How many"), 1, 1000000);
  verb->add_option("--seed", flags->seed, "Seed of problems and data")->capture_default_str();
  verb->add_option("--conv", request->conv.op, "Convolutions: fprop, dgrad, wgrad, or any of them")
      ->expected(0, 1)
      ->default_str(kAnyOp);
  verb->add_option(
          "--largest", flags->largest,
          "Bound of m, n and k, its cube that of a convolution's products; 0: 1024 on a GPU, 160 on the host")
      ->check(CLI::Range(0, 65536));
  verb->add_flag("--any-strides", flags->any_strides, "16-bit operands at any address and stride only");
  verb->add_option("--device", flags->device, "auto, host (the host twin), or the number of a GPU")
      ->capture_default_str();
  bounded(verb->add_option("--hang-s", flags->hang_s, "Give up when a problem takes longer; 0: never"), 0,
          kLongestHang);
  add_packed_flags(*verb, request->packed);
  const size_t before = verb->get_options().size();
  add_override_flags(*verb, request->problem);
  const std::vector<CLI::Option*> all = verb->get_options();
  request->override_options.assign(all.begin() + static_cast<std::ptrdiff_t>(before), all.end());
  auto records = std::make_shared<VerifyRecordsFlags>();
  CLI::Option* of_records = verb->add_flag(
      "--records", records->given, "Instead: the kernel of every shipped tuning record, at its own problem");
  verb->add_option("--only", records->only, "Only records with this text in their problem's name")
      ->needs(of_records);
  verb->add_option("--json", records->json, "Write what was found with the records here")->needs(of_records);
  verb->add_option("--commit", records->commit, "Written into the JSON (else the one of the build)")
      ->needs(of_records);
  return {verb, [=] {
            if (records->given) return run_records(*flags, *records);
            return run_verify(*flags, *request);
          }};
}

}  // namespace sluice::lab
