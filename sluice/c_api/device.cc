// SPDX-License-Identifier: Apache-2.0
// The C interface, second half: what needs a GPU.
#include <sluice/c_api/arrays.h>
#include <sluice/c_api/choices.h>
#include <sluice/c_api/error.h>
#include <sluice/c_api/handles.h>
#include <sluice/c_api/quantization.h>

#include <array>
#include <atomic>
#include <mutex>

using namespace sluice;
using namespace sluice::c_api;

namespace {

/// Those of sluice_device_default, by ordinal. Never freed: at exit the driver may be gone before us.
constexpr int kMaxDefaultDevices = 64;
std::array<std::atomic<sluice_device*>, kMaxDefaultDevices> default_devices;
/// Each held while its device is opened, which takes the driver a second: others wait for no other device.
std::array<std::mutex, kMaxDefaultDevices> default_device_mutexes;

Result<sluice_device*> open_device(int ordinal, const Options& options) {
  Result<Device> device = Device::open(ordinal, options);
  if (!device) return device.error();
  const std::string name = device->info().name;
  return new sluice_device{Session(*std::move(device)), name};
}

Result<sluice_device*> default_device(int ordinal) {
  if (ordinal < 0 || ordinal >= kMaxDefaultDevices)
    return Error{ErrorCode::invalid_argument, "device " + std::to_string(ordinal) + " must be in 0.." +
                                                  std::to_string(kMaxDefaultDevices - 1)};
  std::atomic<sluice_device*>& slot = default_devices[static_cast<std::size_t>(ordinal)];
  if (sluice_device* device = slot.load(std::memory_order_acquire)) return device;
  const std::lock_guard lock(default_device_mutexes[static_cast<std::size_t>(ordinal)]);
  if (sluice_device* device = slot.load(std::memory_order_acquire)) return device;
  Result<sluice_device*> opened = open_device(ordinal, options_from_environment());
  if (opened) slot.store(*opened, std::memory_order_release);
  return opened;
}

sluice_status run_product(sluice_device* device, const sluice_product* product,
                          const WorkspaceView& workspace, Stream stream) {
  if (device == nullptr || product == nullptr)
    return fail(null_argument(device == nullptr ? "device" : "product"));
  Result<ProblemAndArgs> found = problem_of(*product);
  if (!found) return fail(found.error());
  if (const int ordinal = device->session.device().ordinal(); found->device != ordinal)
    return status_of(check_device_of(*product, ordinal));
  found->args.workspace = workspace;
  const Result<void> done = device->session.run(found->problem, found->args, stream);
  return done ? SLUICE_OK : fail(with_names(*product, done.error()));
}

sluice_status run_quantizer(sluice_device* device, const sluice_quantization* what,
                            const WorkspaceView& workspace, Stream stream) {
  if (device == nullptr || what == nullptr) return fail(null_argument(device == nullptr ? "device" : "what"));
  Result<QuantizeCall> call = quantization_of(*what);
  if (!call) return fail(call.error());
  const int ordinal = device->session.device().ordinal();
  if (what->input->device_type != SLUICE_ON_CUDA || what->input->device != ordinal)
    return fail({ErrorCode::wrong_device, "input is not on cuda:" + std::to_string(ordinal) +
                                              ", where the call is to run: move it there"});
  call->args.workspace = workspace;
  return status_of(device->session.quantize(*call, stream));
}

}  // namespace

extern "C" {

sluice_status sluice_device_open(int32_t ordinal, const sluice_options* options, sluice_device** device) {
  return guarded([&] {
    if (device == nullptr) return fail(null_argument("device"));
    const Result<sluice_device*> opened = open_device(ordinal, options_of(options));
    if (!opened) return fail(opened.error());
    *device = *opened;
    return SLUICE_OK;
  });
}

void sluice_device_close(sluice_device* device) {
  delete device;
}

sluice_status sluice_device_default(int32_t ordinal, sluice_device** device) {
  return guarded([&] {
    if (device == nullptr) return fail(null_argument("device"));
    const Result<sluice_device*> opened = default_device(ordinal);
    if (!opened) return fail(opened.error());
    *device = *opened;
    return SLUICE_OK;
  });
}

const char* sluice_device_name(const sluice_device* device) {
  return device != nullptr ? device->name.c_str() : nullptr;
}

sluice_status sluice_prepare(const sluice_device* device, const sluice_plan* plan, sluice_kernel** kernel) {
  return guarded([&] {
    if (device == nullptr || plan == nullptr || kernel == nullptr)
      return fail(null_argument(device == nullptr ? "device" : plan == nullptr ? "plan" : "kernel"));
    const Plan* const product = std::get_if<Plan>(&plan->plan);
    if (product == nullptr)
      return fail({ErrorCode::invalid_argument,
                   "the plan is of a packed product, whose kernel is not handed out: pass the plan to "
                   "sluice_use_plan, and call sluice_packed_run"});
    const Result<gemm::Kernel> prepared = gemm::prepare(device->session.device(), *product);
    if (!prepared) return fail(prepared.error());
    *kernel = new sluice_kernel{*prepared};
    return SLUICE_OK;
  });
}

void sluice_kernel_free(sluice_kernel* kernel) {
  delete kernel;
}

sluice_status sluice_launch(const sluice_kernel* kernel, const sluice_pointers* p,
                            const sluice_workspace* workspace, sluice_stream stream) {
  return guarded([&] {
    if (kernel == nullptr || p == nullptr)
      return fail(null_argument(kernel == nullptr ? "kernel" : "pointers"));
    const gemm::Args args{.a = p->a,
                          .b = p->b,
                          .c = p->c,
                          .d = p->d,
                          .scale_a = p->scale_a,
                          .scale_b = p->scale_b,
                          .bias = p->bias,
                          .alpha = p->alpha,
                          .beta = p->beta,
                          .workspace = workspace != nullptr ? workspace->workspace.view() : WorkspaceView{}};
    return status_of(gemm::launch(kernel->kernel, args, stream));
  });
}

sluice_status sluice_workspace_create(const sluice_device* device, int64_t bytes,
                                      sluice_workspace** workspace) {
  return guarded([&] {
    if (device == nullptr || workspace == nullptr)
      return fail(null_argument(device == nullptr ? "device" : "workspace"));
    const Result<Workspace> made =
        Workspace::create(device->session.device(), bytes < 0 ? kWorkspaceLimit : bytes);
    if (!made) return fail(made.error());
    *workspace = new sluice_workspace{*made};
    return SLUICE_OK;
  });
}

void sluice_workspace_free(sluice_workspace* workspace) {
  delete workspace;
}

int64_t sluice_workspace_bytes(const sluice_workspace* workspace) {
  return workspace != nullptr ? workspace->workspace.bytes() : 0;
}

sluice_status sluice_workspace_verify(const sluice_workspace* workspace) {
  return guarded([&] {
    if (workspace == nullptr) return fail(null_argument("workspace"));
    return status_of(workspace->workspace.verify());
  });
}

sluice_status sluice_workspace_reset(sluice_workspace* workspace, sluice_stream stream) {
  return guarded([&] {
    if (workspace == nullptr) return fail(null_argument("workspace"));
    return status_of(workspace->workspace.reset(stream));
  });
}

sluice_status sluice_run(sluice_device* device, const sluice_product* product, sluice_stream stream) {
  return guarded([&] { return run_product(device, product, {}, stream); });
}

sluice_status sluice_run_with(sluice_device* device, const sluice_product* product,
                              const sluice_workspace* workspace, sluice_stream stream) {
  return guarded([&] {
    if (workspace == nullptr) return fail(null_argument("workspace"));
    return run_product(device, product, workspace->workspace.view(), stream);
  });
}

sluice_status sluice_make_ready(sluice_device* device, const sluice_problem* problems, int32_t count) {
  return guarded([&] {
    if (device == nullptr || (problems == nullptr && count > 0))
      return fail(null_argument(device == nullptr ? "device" : "problems"));
    if (count < 0) return fail(negative_count(count));
    std::vector<Problem> checked;
    for (int32_t i = 0; i < count; ++i) {
      const Result<Problem> problem = problem_of(problems[i]);
      if (!problem) return fail(problem.error());
      checked.push_back(*problem);
    }
    return status_of(device->session.make_ready(checked));
  });
}

sluice_status sluice_use_plan(sluice_device* device, const sluice_plan* plan) {
  return guarded([&] {
    if (device == nullptr || plan == nullptr)
      return fail(null_argument(device == nullptr ? "device" : "plan"));
    if (const auto* const packed = std::get_if<packed::Plan>(&plan->plan))
      return status_of(device->session.use(*packed));
    return status_of(device->session.use(std::get<Plan>(plan->plan)));
  });
}

sluice_status sluice_quantize(sluice_device* device, const sluice_quantization* what, sluice_stream stream) {
  return guarded([&] { return run_quantizer(device, what, {}, stream); });
}

sluice_status sluice_quantize_with(sluice_device* device, const sluice_quantization* what,
                                   const sluice_workspace* workspace, sluice_stream stream) {
  return guarded([&] {
    if (workspace == nullptr) return fail(null_argument("workspace"));
    return run_quantizer(device, what, workspace->workspace.view(), stream);
  });
}

sluice_status sluice_make_quantizers_ready(sluice_device* device, int32_t input) {
  return guarded([&] {
    if (device == nullptr) return fail(null_argument("device"));
    if (input < 0 || input >= kDTypeCount)
      return fail(
          {ErrorCode::invalid_argument, "input = " + std::to_string(input) + " must be an element type"});
    return status_of(device->session.make_quantizers_ready(static_cast<DType>(input)));
  });
}

sluice_status sluice_verify_workspaces(sluice_device* device) {
  return guarded([&] {
    if (device == nullptr) return fail(null_argument("device"));
    return status_of(device->session.verify_workspaces());
  });
}

sluice_status sluice_reset_workspaces(sluice_device* device) {
  return guarded([&] {
    if (device == nullptr) return fail(null_argument("device"));
    return status_of(device->session.reset_workspaces());
  });
}

sluice_status sluice_device_holdings(sluice_device* device, sluice_holdings* holdings) {
  return guarded([&] {
    if (device == nullptr || holdings == nullptr)
      return fail(null_argument(device == nullptr ? "device" : "holdings"));
    const Session::Holdings found = device->session.holdings();
    *holdings = {found.kernels, found.workspaces, found.workspace_bytes};
    return SLUICE_OK;
  });
}

}  // extern "C"
