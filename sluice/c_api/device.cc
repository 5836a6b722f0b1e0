// SPDX-License-Identifier: Apache-2.0
// The functions of the C interface that need a GPU; library.cc has those that do not.
#include <sluice/c_api/convolutions.h>
#include <sluice/c_api/error.h>
#include <sluice/c_api/handles.h>
#include <sluice/c_api/options.h>
#include <sluice/c_api/products.h>

#include <array>
#include <atomic>
#include <mutex>
#include <type_traits>

using namespace sluice;
using namespace sluice::c_api;

namespace {

/// The devices of sluice_device_default, by ordinal. They are never freed, because the driver may already be
/// unloaded when the process exits.
constexpr int kMaxDefaultDevices = 64;
std::array<std::atomic<sluice_device*>, kMaxDefaultDevices> default_devices;
/// One mutex per device. Opening a device takes about a second, and must not block calls for other devices.
std::array<std::mutex, kMaxDefaultDevices> default_device_mutexes;

Result<sluice_device*> open_device(int ordinal, const Options& options) {
  Result<Device> device = Device::open(ordinal, options);
  if (!device) return device.error();
  const std::string name = device->info().name;
  return new sluice_device{Session(*std::move(device)), name};
}

}  // namespace

Result<sluice_device*> sluice::c_api::default_device(int ordinal) {
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

namespace {

/// Returns the arguments of a launch. With packed weights, alpha 0 counts as 1, and beta without C too.
gemm::Args args_of(const sluice_pointers& p, const Problem& problem, const WorkspaceView& workspace) {
  const bool packed = is_packed(problem);
  return {.a = p.a,
          .b = p.b,
          .c = p.c,
          .d = p.d,
          .scale_a = p.scale_a,
          .scale_b = p.scale_b,
          .scale_d = p.scale_d,
          .bias = p.bias,
          .gamma = p.gamma,
          .epsilon = p.epsilon,
          .alpha = packed && p.alpha == 0 ? 1.0f : p.alpha,
          .beta = packed && p.c == nullptr ? 1.0f : p.beta,
          .workspace = workspace};
}

Named first_of(const sluice_product& product) {
  return named(product, kNameA);
}
Named first_of(const sluice_convolution& convolution) {
  return named(convolution, roles_of(convolution.op).a);
}

/// Runs a product or a convolution of arrays with a lent workspace.
template <class What>
sluice_status run_arrays(sluice_device* device, const What* what, const WorkspaceView& workspace,
                         Stream stream) {
  constexpr bool kProduct = std::is_same_v<What, sluice_product>;
  if (device == nullptr || what == nullptr)
    return fail(null_argument(device == nullptr ? "device" : kProduct ? "product" : "convolution"));
  auto found = call_of(*what);
  if (!found) return fail(found.error());
  if (const Result<void> there = check_on(first_of(*what), found->memory, device->session.device().ordinal());
      !there)
    return fail(there.error());
  found->args.workspace = workspace;
  const Result<void> done = device->session.run(found->problem, found->args, stream);
  return done ? SLUICE_OK : fail(with_names(*what, done.error()));
}
/// Runs a product or a convolution of arrays with the caller's workspace.
template <class What>
sluice_status run_arrays(sluice_device* device, const What* what, const sluice_workspace* workspace,
                         Stream stream) {
  if (workspace == nullptr) return fail(null_argument("workspace"));
  return run_arrays(device, what, workspace->workspace.view(), stream);
}

sluice_status run_quantizer(sluice_device* device, const sluice_quantization* what,
                            const WorkspaceView& workspace, Stream stream) {
  if (device == nullptr || what == nullptr) return fail(null_argument(device == nullptr ? "device" : "what"));
  Result<QuantizeCall> call = quantization_of(*what);
  if (!call) return fail(call.error());
  if (const Result<void> there =
          check_on({"input", what->input}, call->memory, device->session.device().ordinal());
      !there)
    return fail(there.error());
  call->args.workspace = workspace;
  return status_of(device->session.quantize(*call, stream));
}

enum class Direction { pack, unpack };

sluice_status move_on_gpu(Direction direction, sluice_device* device, const sluice_packing* what,
                          Stream stream) {
  return guarded([&] {
    if (device == nullptr || what == nullptr)
      return fail(null_argument(device == nullptr ? "device" : "what"));
    const Result<PackCall> call = packing_of(*what);
    if (!call) return fail(call.error());
    if (const Result<void> there =
            check_on({"codes", what->codes}, call->memory, device->session.device().ordinal());
        !there)
      return fail(there.error());
    return status_of(direction == Direction::pack ? device->session.pack(*call, stream)
                                                  : device->session.unpack(*call, stream));
  });
}

sluice_status move_on_host(Direction direction, const sluice_packing* what) {
  return guarded([&] {
    if (what == nullptr) return fail(null_argument("what"));
    const Result<PackCall> call = packing_of(*what);
    if (!call) return fail(call.error());
    if (call->memory != kOnHost)
      return fail(
          {ErrorCode::wrong_device, "codes are on " + place_text(call->memory) +
                                        ", and this packs in host memory: call sluice_pack, or move them"});
    return status_of(direction == Direction::pack ? pack_on_host(*call) : unpack_on_host(*call));
  });
}

}  // namespace

extern "C" {

sluice_status sluice_device_open(int32_t ordinal, const sluice_options* options, sluice_device** device) {
  return guarded([&] {
    if (device == nullptr) return fail(null_argument("device"));
    const Result<Options> checked = options_of(options);
    if (!checked) return fail(checked.error());
    const Result<sluice_device*> opened = open_device(ordinal, *checked);
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

sluice_status sluice_race(const sluice_device* device, const sluice_problem* problem, int32_t candidates,
                          sluice_plan** plan) {
  return guarded([&] {
    if (device == nullptr) return fail(null_argument("device"));
    const Device& on = device->session.device();
    return give_plan(problem, {.info = on.info()}, plan,
                     [&](const Problem& of) { return gemm::race(on, of, candidates); });
  });
}

sluice_status sluice_prepare(const sluice_device* device, const sluice_plan* plan, sluice_kernel** kernel) {
  return guarded([&] {
    if (device == nullptr || plan == nullptr || kernel == nullptr)
      return fail(null_argument(device == nullptr ? "device" : plan == nullptr ? "plan" : "kernel"));
    const Result<gemm::Kernel> prepared = gemm::prepare(device->session.device(), plan->plan);
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
    const WorkspaceView view = workspace != nullptr ? workspace->workspace.view() : WorkspaceView{};
    const gemm::Kernel& prepared = kernel->kernel;
    return status_of(gemm::launch(prepared, args_of(*p, prepared.plan().problem, view), stream));
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
  return guarded([&] { return run_arrays(device, product, WorkspaceView{}, stream); });
}
sluice_status sluice_run_with(sluice_device* device, const sluice_product* product,
                              const sluice_workspace* workspace, sluice_stream stream) {
  return guarded([&] { return run_arrays(device, product, workspace, stream); });
}

sluice_status sluice_conv_run(sluice_device* device, const sluice_convolution* convolution,
                              sluice_stream stream) {
  return guarded([&] { return run_arrays(device, convolution, WorkspaceView{}, stream); });
}
sluice_status sluice_conv_run_with(sluice_device* device, const sluice_convolution* convolution,
                                   const sluice_workspace* workspace, sluice_stream stream) {
  return guarded([&] { return run_arrays(device, convolution, workspace, stream); });
}

sluice_status sluice_make_ready(sluice_device* device, const sluice_problem* problems, int32_t count) {
  return guarded([&] {
    if (device == nullptr || (problems == nullptr && count > 0))
      return fail(null_argument(device == nullptr ? "device" : "problems"));
    if (count < 0) return fail(negative_count(count));
    std::vector<Problem> read;
    for (int32_t i = 0; i < count; ++i) {
      const Result<Problem> problem = problem_of(problems[i]);
      if (!problem) return fail(problem.error());
      read.push_back(*problem);
    }
    const Result<void> done = device->session.make_ready(read);
    return done ? SLUICE_OK : fail(in_c_names(done.error()));
  });
}

sluice_status sluice_use_plan(sluice_device* device, const sluice_plan* plan) {
  return guarded([&] {
    if (device == nullptr || plan == nullptr)
      return fail(null_argument(device == nullptr ? "device" : "plan"));
    return status_of(device->session.use(plan->plan));
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

sluice_status sluice_norm(sluice_device* device, const sluice_normalization* what, sluice_stream stream) {
  return guarded([&] {
    if (device == nullptr || what == nullptr)
      return fail(null_argument(device == nullptr ? "device" : "what"));
    const Result<NormCall> call = normalization_of(*what);
    if (!call) return fail(call.error());
    if (const Result<void> there =
            check_on({"input", what->input}, call->memory, device->session.device().ordinal());
        !there)
      return fail(there.error());
    return status_of(device->session.norm(*call, stream));
  });
}

sluice_status sluice_make_norms_ready(sluice_device* device, int32_t input) {
  return guarded([&] {
    if (device == nullptr) return fail(null_argument("device"));
    if (input != SLUICE_BF16 && input != SLUICE_FP16)
      return fail({ErrorCode::invalid_type, "input must be bf16 or fp16"});
    return status_of(device->session.make_norms_ready(static_cast<DType>(input)));
  });
}

sluice_status sluice_packed_numbers_of(const sluice_weight_format* format, int64_t n, int64_t k,
                                       sluice_packed_numbers* numbers) {
  return guarded([&] {
    if (format == nullptr || numbers == nullptr)
      return fail(null_argument(format == nullptr ? "format" : "numbers"));
    const Result<WeightFormat> checked = format_of(*format);
    if (!checked) return fail(checked.error());
    const Result<sluice_packed_numbers> found = numbers_of(*checked, n, k);
    if (!found) return fail(found.error());
    *numbers = *found;
    return SLUICE_OK;
  });
}

sluice_status sluice_pack(sluice_device* device, const sluice_packing* what, sluice_stream stream) {
  return move_on_gpu(Direction::pack, device, what, stream);
}
sluice_status sluice_unpack(sluice_device* device, const sluice_packing* what, sluice_stream stream) {
  return move_on_gpu(Direction::unpack, device, what, stream);
}
sluice_status sluice_pack_on_host(const sluice_packing* what) {
  return move_on_host(Direction::pack, what);
}
sluice_status sluice_unpack_on_host(const sluice_packing* what) {
  return move_on_host(Direction::unpack, what);
}

sluice_status sluice_make_packer_ready(sluice_device* device, const sluice_weight_format* format) {
  return guarded([&] {
    if (device == nullptr || format == nullptr)
      return fail(null_argument(device == nullptr ? "device" : "format"));
    const Result<WeightFormat> checked = format_of(*format);
    if (!checked) return fail(checked.error());
    return status_of(device->session.make_packer_ready(*checked));
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
