// SPDX-License-Identifier: Apache-2.0
// The functions of the C interface that need no GPU: version, errors, problems, plans, compilation. device.cc
// has the others.
#include <sluice/c_api/error.h>
#include <sluice/c_api/handles.h>
#include <sluice/c_api/options.h>

#include <sluice/c_experts.h>
#include <sluice/compile.h>
#include <sluice/plan/dense/problem_checks.h>
#include <sluice/plan/text/pack_units.h>
#include <sluice/run/jit/nvrtc_api.h>
#include <sluice/text.h>
#include <sluice/try.h>

using namespace sluice;
using namespace sluice::c_api;

namespace sluice::c_api {
namespace {

thread_local std::string last_message;

/// Fills in the counts of compiled kernels and returns the status of the first failure.
sluice_status status_of(const Result<Compiled>& result, sluice_compiled* done) {
  if (!result) return fail(result.error());
  if (done != nullptr) *done = {result->compiled, result->already_there, result->failed};
  return result->first_failure ? fail(*result->first_failure) : SLUICE_OK;
}

sluice_status create_plan(const Result<Target>& target, const sluice_call* call, const char* choices,
                          sluice_plan** made) {
  if (!target) return fail(target.error());
  return give_plan(call, *target, made, [&](const Problem& of) { return plan(of, *target, choices); });
}

}  // namespace

static_assert(SLUICE_INTERNAL == static_cast<int>(ErrorCode::internal) + 1 &&
              SLUICE_NOT_PREPARED == static_cast<int>(ErrorCode::not_prepared) + 1 &&
              SLUICE_INVALID_SIZE == static_cast<int>(ErrorCode::invalid_size) + 1);

sluice_status fail(const Error& error) {
  last_message = printable(error.message);
  return static_cast<sluice_status>(static_cast<int>(error.code) + 1);
}

}  // namespace sluice::c_api

extern "C" {

int sluice_c_abi(void) {
  return SLUICE_C_ABI;
}

const char* sluice_version(void) {
  return SLUICE_VERSION;
}

const char* sluice_error_message(void) {
  return last_message.c_str();
}

const char* sluice_status_name(sluice_status status) {
  if (status == SLUICE_OK) return "ok";
  if (status < SLUICE_OK || status > SLUICE_INTERNAL) return "?";
  return name_of(static_cast<ErrorCode>(status - 1));
}

sluice_status sluice_suggest_nvrtc(const char* folder) {
  return guarded([&] {
    suggest_nvrtc(folder != nullptr ? folder : "");
    return SLUICE_OK;
  });
}

sluice_status sluice_describe(sluice_call* call) {
  return guarded([&] {
    if (const Result<void> good = check_call(call); !good) return fail(good.error());
    const Result<sluice_problem> found = described(*call);
    if (!found) return fail(found.error());
    call->problem = *found;
    return SLUICE_OK;
  });
}

sluice_status sluice_check(const sluice_call* call) {
  return guarded([&] {
    const Result<Problem> problem = problem_of(call);
    if (!problem) return fail(problem.error());
    const Result<Problem> checked = check_problem(*problem);
    return checked ? SLUICE_OK : fail(checked.error());
  });
}

sluice_status sluice_plan_create(const sluice_device* device, const sluice_call* call, const char* choices,
                                 sluice_plan** plan) {
  return guarded([&] { return create_plan(target_of(device, nullptr), call, choices, plan); });
}

sluice_status sluice_plan_create_for(const char* gpu, const sluice_call* call, const char* choices,
                                     sluice_plan** plan) {
  return guarded([&] {
    if (gpu == nullptr) return fail(null_argument("gpu"));
    return create_plan(target_of(nullptr, gpu), call, choices, plan);
  });
}

void sluice_plan_free(sluice_plan* plan) {
  delete plan;
}

const char* sluice_plan_text(const sluice_plan* plan) {
  return plan != nullptr ? plan->text.c_str() : nullptr;
}

const char* sluice_plan_config(const sluice_plan* plan) {
  return plan != nullptr ? plan->config.c_str() : nullptr;
}

int32_t sluice_plan_unit_count(const sluice_plan* plan) {
  return plan != nullptr ? static_cast<int32_t>(plan->units.size()) : 0;
}

const char* sluice_plan_unit(const sluice_plan* plan, int32_t index) {
  if (index < 0 || index >= sluice_plan_unit_count(plan)) return nullptr;
  return plan->units[static_cast<std::size_t>(index)].c_str();
}

const char* sluice_plan_source(const sluice_plan* plan) {
  if (plan == nullptr) return nullptr;
  return name_of(plan->plan.source);
}

int64_t sluice_plan_workspace_bytes(const sluice_plan* plan) {
  return plan != nullptr ? plan->plan.workspace_bytes : 0;
}

double sluice_plan_estimate_us(const sluice_plan* plan) {
  if (plan == nullptr) return 0;
  const Plan& of = plan->plan;
  return of.source == PlanSource::record && !of.product_alone ? of.measured_us : of.estimate.total_us;
}

sluice_status sluice_compile(const sluice_plan* const* plans, int32_t count, const sluice_options* given,
                             sluice_compiled* done) {
  return guarded([&] {
    if (done != nullptr) *done = {};
    if (count < 0) return fail(negative_count(count));
    if (count > 0 && plans == nullptr) return fail(null_argument("plans"));
    for (int32_t i = 0; i < count; ++i)
      if (plans[i] == nullptr) return fail(null_argument(("plans[" + std::to_string(i) + "]").c_str()));
    const Result<Options> options = options_of(given);
    if (!options) return fail(options.error());
    std::vector<std::string> units;
    for (int32_t i = 0; i < count; ++i)
      units.insert(units.end(), plans[i]->units.begin(), plans[i]->units.end());
    return status_of(compile_units(units, *options), done);
  });
}

sluice_status sluice_compile_quantizers(int32_t input, const sluice_options* given, sluice_compiled* done) {
  return guarded([&] {
    if (done != nullptr) *done = {};
    if (input != SLUICE_BF16 && input != SLUICE_FP16 && input != SLUICE_FP32)
      return fail({ErrorCode::invalid_type, "input must be bf16, fp16 or fp32"});
    const Result<Options> options = options_of(given);
    if (!options) return fail(options.error());
    return status_of(compile(quantizers_of(static_cast<DType>(input)), *options), done);
  });
}

sluice_status sluice_compile_norms(int32_t input, const sluice_options* given, sluice_compiled* done) {
  return guarded([&] {
    if (done != nullptr) *done = {};
    if (input != SLUICE_BF16 && input != SLUICE_FP16)
      return fail({ErrorCode::invalid_type, "input must be bf16 or fp16"});
    const Result<Options> options = options_of(given);
    if (!options) return fail(options.error());
    return status_of(compile(norms_of(static_cast<DType>(input)), *options), done);
  });
}

sluice_status sluice_compile_experts(int32_t input, const sluice_options* given, sluice_compiled* done) {
  return guarded([&] {
    if (done != nullptr) *done = {};
    if (input != SLUICE_BF16 && input != SLUICE_FP16)
      return fail({ErrorCode::invalid_type, "input must be bf16 or fp16"});
    const Result<Options> options = options_of(given);
    if (!options) return fail(options.error());
    const ExpertKernels kernels = experts_of(static_cast<DType>(input));
    Compiled all;
    const auto compiled = [&](const auto& some) -> Result<void> {
      SLUICE_TAKE(const Compiled part, compile(std::span(some), *options));
      all.compiled += part.compiled;
      all.already_there += part.already_there;
      all.failed += part.failed;
      if (!all.first_failure) all.first_failure = part.first_failure;
      return {};
    };
    Result<void> made = compiled(kernels.routers);
    if (made) made = compiled(kernels.gatherers);
    if (made) made = compiled(kernels.combiners);
    return made ? status_of(Result<Compiled>(all), done) : fail(made.error());
  });
}

sluice_status sluice_compile_packer(const sluice_weight_format* given_format, const sluice_options* given,
                                    sluice_compiled* done) {
  return guarded([&] {
    if (done != nullptr) *done = {};
    if (given_format == nullptr) return fail(null_argument("format"));
    const Result<WeightFormat> format = format_of(*given_format);
    if (!format) return fail(format.error());
    const Result<Options> options = options_of(given);
    if (!options) return fail(options.error());
    std::vector<std::string> units;
    for (const PackStep step : {PackStep::pack, PackStep::unpack})
      units.push_back(pack_unit_text({step, *format, CodeStorage::byte}));
    return status_of(compile_units(units, *options), done);
  });
}

}  // extern "C"
