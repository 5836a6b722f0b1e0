// SPDX-License-Identifier: Apache-2.0
// The structs behind the opaque handles of c_api.h.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include <sluice/c_api/call.h>
#include <sluice/c_api/error.h>
#include <sluice/c_api/session.h>
#include <sluice/c_api/values.h>

struct sluice_device {
  sluice::c_api::Session session;
  std::string name;
};

struct sluice_plan {
  sluice::Plan plan;
  std::string text, config;
  std::vector<std::string> units;  // empty if there is nothing to launch
  std::string rows_text{};         // the text of the whole range, if the plan belongs to a range of m
};

struct sluice_kernel {
  sluice::gemm::Kernel kernel;
};

struct sluice_workspace {
  sluice::Workspace workspace;
};

namespace sluice::c_api {

/// Returns the process-wide device of a GPU. The first call opens it, with the environment's options.
Result<sluice_device*> default_device(int ordinal);

/// Checks a call, that its first array is on the device, and runs it.
template <class What, class Check, class Run>
sluice_status run_on(sluice_device* device, const What* what, const Check& check, const Named& first,
                     const Run& run) {
  const auto call = check(*what);
  if (!call) return fail(call.error());
  const Result<void> there = check_on(first, call->memory, device->session.device().ordinal());
  return there ? status_of(run(device->session, *call)) : fail(there.error());
}

/// Returns the error of a null argument, if one is null.
inline sluice_status check_both(const void* device, const void* what) {
  if (device != nullptr && what != nullptr) return SLUICE_OK;
  return fail(null_argument(device == nullptr ? "device" : "what"));
}

/// The GPU that plans are made for, and its tuning records.
struct Target {
  DeviceInfo info{};  // an H200
  RecordBook records{};
  bool stands_in = false;  // true: the caller named no GPU and the machine has none, so `info` is a default
};
/// Returns the target of `device`. If `device` is null, it is the GPU named `gpu`. If both are null, it is
/// the machine's first GPU, or an H200 if there is no usable GPU. Errors: invalid_argument for an unknown
/// name; those of Device::open, except for a missing GPU.
Result<Target> target_of(const sluice_device* device, const char* gpu);

/// Makes a plan's handle, including its text, which names the target.
std::unique_ptr<sluice_plan> handle_of(const Plan& plan, const Target& target);
/// Returns a handle of the plan that `make` makes of a problem.
template <class Make>
sluice_status give_plan(const sluice_call* call, const Target& target, sluice_plan** plan, const Make& make) {
  if (plan == nullptr) return fail(null_argument("plan"));
  const Result<Problem> read = problem_of(call);
  if (!read) return fail(read.error());
  const Result<Plan> made = make(*read);
  if (!made) return fail(made.error());
  *plan = handle_of(*made, target).release();
  return SLUICE_OK;
}

/// Plans a problem with the overrides in the text `choices`. Errors: those of from_text and of plan().
Result<Plan> plan(const Problem& problem, const Target& target, const char* choices);

}  // namespace sluice::c_api
