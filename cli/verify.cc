// SPDX-License-Identifier: Apache-2.0
// `sluice verify`: is this build right on this machine? Random problems, every element checked: on a GPU bit
// for bit against fp64 with whole numbers, and within the bounds with reals; without one on the host twin.
// Packed weights are packed_verify.cc's.
#include <fmt/format.h>

#include <memory>

#include <sluice/check/verify.h>
#include <sluice/host/driver/events.h>

#include "bench/shapes.h"
#include "cli/host_problem.h"
#include "cli/packed_verify.h"
#include "cli/random_problem.h"
#include "cli/target.h"
#include "cli/terminal.h"
#include "cli/value_checks.h"
#include "cli/verb.h"
#include "cli/verify_records.h"
#include "cli/watchdog.h"

namespace sluice::cli {
namespace {

constexpr i64 kLargestOnGpu = 1024, kLargestOnHost = 160;
constexpr int kShownFailures = 5;

/// Planned problems; what the planner refuses is tallied with its reason, for a person to judge.
template <class Planner>
std::vector<Plan> plan_all(const VerifyFlags& flags, i64 largest, Tally& tally, const Planner& planner) {
  std::vector<Plan> plans;
  for (int i = 0; i < flags.problems; ++i) {
    const RandomSpec spec{.seed = flags.seed, .largest = largest, .exact = i % 2 == 0};
    const Result<Plan> plan = planner(random_problem(spec, i));
    if (plan)
      plans.push_back(*plan);
    else
      ++tally.refused[plan.error().message];
  }
  return plans;
}

Result<void> verify_on_gpu(const VerifyFlags& flags, const Device& device, Tally& tally) {
  const Result<Verifier> verifier = Verifier::create(device);
  if (!verifier) return verifier.error();
  const Result<StreamHandle> stream = StreamHandle::create(device);
  if (!stream) return stream.error();
  const Result<Workspace> workspace = Workspace::create(device);
  if (!workspace) return workspace.error();
  const i64 largest = flags.largest > 0 ? flags.largest : kLargestOnGpu;
  const std::vector<Plan> plans =
      plan_all(flags, largest, tally, [&](const Problem& p) { return gemm::plan(p, device.info()); });
  Progress compiling("compile");
  const auto kernels =
      gemm::prepare(device, plans, [&](int done, int total) { compiling.update(done, total); });
  compiling.clear();
  Progress bar("verify");
  Watchdog watchdog(flags.hang_s);
  for (size_t i = 0; i < plans.size(); ++i) {
    const Plan& plan = plans[i];
    const std::string name = fmt::format("{}\n  {}", to_string(plan.problem), to_string(plan.config));
    bar.update(static_cast<int>(i), static_cast<int>(plans.size()), bench::problem_text(plan.problem));
    watchdog.step(name);
    if (!kernels[i]) return kernels[i].error();
    const bool exact = i % 2 == 0;
    const DataSpec spec =
        exact ? exact_data(plan.problem, flags.seed + i) : real_data(plan.problem, flags.seed + i);
    const Result<ProblemData> data = verifier->make_data(plan.problem, spec, stream->get());
    if (!data) return data.error();
    gemm::Args args = data->args();
    args.workspace = workspace->view();
    if (Result<void> done = gemm::launch(*kernels[i], args, stream->get()); !done) return done;
    const Result<Comparison> found =
        verifier->check(*data, {.judge = exact ? Judge::exact : Judge::bounded}, stream->get());
    if (!found) return found.error();
    if (found->passed()) {
      ++tally.right;
      continue;
    }
    bar.clear();
    tally.fail(name, describe(*found));
  }
  return {};
}

Result<void> verify_on_host(const VerifyFlags& flags, Tally& tally) {
  const i64 largest = flags.largest > 0 ? flags.largest : kLargestOnHost;
  const std::vector<Plan> plans = plan_all(
      flags, largest, tally, [](const Problem& p) { return plan_with_roles(p, {}, shipped_records()); });
  Progress bar("verify");
  for (size_t i = 0; i < plans.size(); ++i) {
    const Plan& plan = plans[i];
    bar.update(static_cast<int>(i), static_cast<int>(plans.size()), bench::problem_text(plan.problem));
    HostProblem problem(plan.problem, 1.25f, plan.problem.epilogue.residual ? -0.5f : 0.0f, flags.seed + i);
    const Result<twin::TwinReport> ran = problem.run(plan, flags.seed + i);
    const HostComparison found = ran ? problem.compare() : HostComparison{};
    if (ran && found.passed()) {
      ++tally.right;
      continue;
    }
    bar.clear();
    tally.fail(fmt::format("{}\n  {}", to_string(plan.problem), to_string(plan.config)),
               ran ? describe(found) : ran.error().message);
  }
  return {};
}

/// Without --weights none of its flags has an effect.
Result<void> check_verify(const RequestFlags& request, const PackedFlags& packed) {
  if (Result<void> good = check_dense(packed); !good) return good.error();
  if (is_packed(packed)) return {};
  return refuse_given(request.override_options, "without --weights: dense plans are the planner's");
}

Result<void> verify_dense(const VerifyFlags& flags, const Target& target, Tally& tally) {
  if (target.device) return verify_on_gpu(flags, *target.device, tally);
  return verify_on_host(flags, tally);
}

Result<void> verify_packed(const VerifyFlags& flags, const PackedVerify& packed, const Target& target,
                           Tally& tally) {
  if (target.device) return verify_packed_on_gpu(flags, packed, *target.device, tally);
  return verify_packed_on_host(flags, packed, target.records, tally);
}

Result<int> run_verify(const VerifyFlags& flags, const RequestFlags& request, const PackedFlags& packed) {
  if (Result<void> good = check_verify(request, packed); !good) return good.error();
  const Result<PackedVerify> verified =
      is_packed(packed) ? packed_verify_of(request, packed) : Result<PackedVerify>(PackedVerify{});
  if (!verified) return verified.error();
  const Result<Target> target = find_target(flags.device, options_from_environment());
  if (!target) return target.error();
  const char* host = is_packed(packed) ? "the CPU, through the packed blob" : "the host twin";
  if (!target->why_host.empty())
    fmt::print("on {}, because there is no usable GPU: {}\n", host, target->why_host);
  Tally tally;
  const Result<void> done = is_packed(packed) ? verify_packed(flags, *verified, *target, tally)
                                              : verify_dense(flags, *target, tally);
  if (!done) return done.error();
  for (const auto& [why, times] : tally.refused) fmt::print("refused {} times: {}\n", times, why);
  const bool right = tally.wrong == 0 && tally.right > 0;
  fmt::print(
      "{} problems on {}: {}\n", flags.problems, target->device ? target->device->info().name : host,
      paint(stdout, right ? Colour::green : Colour::red,
            fmt::format("{} right, {} wrong, {} refused", tally.right, tally.wrong, tally.refusals())));
  return right ? kExitOk : kExitNo;
}

Result<int> run_records(const VerifyFlags& flags, VerifyRecordsFlags records) {
  const Result<Target> target = find_target(flags.device, options_from_environment());
  if (!target) return target.error();
  if (!target->device)
    return Error{ErrorCode::invalid_argument,
                 "--records launches the kernels that records choose, and the host twin has none: give the "
                 "number of a GPU with --device"};
  records.seed = flags.seed;
  records.hang_s = flags.hang_s;
  return verify_records(records, *target->device);
}

}  // namespace

void Tally::fail(const std::string& problem, const std::string& why) {
  if (wrong++ < kShownFailures)
    fmt::print("{}: {}\n  {}\n", paint(stdout, Colour::red, "wrong"), problem, why);
}

int Tally::refusals() const {
  int count = 0;
  for (const auto& [why, times] : refused) count += times;
  return count;
}

Verb add_verify_verb(CLI::App& app) {
  auto flags = std::make_shared<VerifyFlags>();
  auto request = std::make_shared<RequestFlags>();
  auto packed = std::make_shared<PackedFlags>();
  CLI::App* verb = app.add_subcommand(
      "verify", "Check random problems against fp64; with --weights, products of packed weights");
  verb->add_option("--problems", flags->problems, "How many")
      ->capture_default_str()
      ->check(CLI::Range(1, 1000000));
  verb->add_option("--seed", flags->seed, "Of problems and data")->capture_default_str();
  verb->add_option("--largest", flags->largest, "Bound of m, n and k; 0: 1024 on a GPU, 160 on the host")
      ->check(CLI::Range(0, 65536));
  verb->add_option("--device", flags->device, "auto, host (the host twin), or the number of a GPU")
      ->capture_default_str();
  verb->add_option("--hang-s", flags->hang_s, "Give up when a problem takes longer; 0: never")
      ->capture_default_str()
      ->check(CLI::Range(0, kLongestHang));
  add_packed_flags(*verb, *packed);
  request->override_options = {verb->add_option("--stages", request->problem.stages,
                                                "With --weights: k-tiles of a warp's ring, narrow")};
  auto records = std::make_shared<VerifyRecordsFlags>();
  CLI::Option* of_records = verb->add_flag(
      "--records", records->given, "Instead: the kernel of every shipped tuning record, at its own problem");
  verb->add_option("--only", records->only, "Of the records, those with this text in their problem's name")
      ->needs(of_records);
  verb->add_option("--json", records->json, "Write what was found with the records here")->needs(of_records);
  verb->add_option("--commit", records->commit, "Written into the JSON (else the one of the build)")
      ->needs(of_records);
  return {verb, [=] {
            if (records->given) return run_records(*flags, *records);
            return run_verify(*flags, *request, *packed);
          }};
}

}  // namespace sluice::cli
