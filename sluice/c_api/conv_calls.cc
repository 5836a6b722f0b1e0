// SPDX-License-Identifier: Apache-2.0
// The C interface for convolutions of arrays. A convolution is the product of its problem: a session runs,
// keeps and lends for it as for any other.
#include <sluice/c_api/convolutions.h>
#include <sluice/c_api/error.h>
#include <sluice/c_api/handles.h>

using namespace sluice;
using namespace sluice::c_api;

namespace {

sluice_status run_convolution(sluice_device* device, const sluice_convolution* convolution,
                              const WorkspaceView& workspace, Stream stream) {
  if (device == nullptr || convolution == nullptr)
    return fail(null_argument(device == nullptr ? "device" : "convolution"));
  Result<ConvCall> call = call_of(*convolution);
  if (!call) return fail(call.error());
  Session& session = device->session;
  const Named first = named(*convolution, roles_of(convolution->op).a);
  if (const Result<void> there = check_on(first, call->memory, session.device().ordinal()); !there)
    return fail(there.error());
  call->args.workspace = workspace;
  const Result<void> done = session.run(call->problem, call->args, stream);
  return done ? SLUICE_OK : fail(with_names(*convolution, done.error()));
}

}  // namespace

extern "C" {

sluice_status sluice_conv_problem_of(const sluice_convolution* convolution, sluice_problem* problem) {
  return guarded([&] {
    if (convolution == nullptr || problem == nullptr)
      return fail(null_argument(convolution == nullptr ? "convolution" : "problem"));
    const Result<ConvCall> call = call_of(*convolution);
    if (!call) return fail(call.error());
    if (const Result<void> good = check(call->problem); !good)
      return fail(with_names(*convolution, good.error()));
    *problem = values_of(*call);
    return SLUICE_OK;
  });
}

sluice_status sluice_conv_run(sluice_device* device, const sluice_convolution* convolution,
                              sluice_stream stream) {
  return guarded([&] { return run_convolution(device, convolution, {}, stream); });
}

sluice_status sluice_conv_run_with(sluice_device* device, const sluice_convolution* convolution,
                                   const sluice_workspace* workspace, sluice_stream stream) {
  return guarded([&] {
    if (workspace == nullptr) return fail(null_argument("workspace"));
    return run_convolution(device, convolution, workspace->workspace.view(), stream);
  });
}

}  // extern "C"
