// SPDX-License-Identifier: Apache-2.0
// The functions of the C interface that need a GPU; library.cc has those that do not.
#include <sluice/c_api/call.h>
#include <sluice/c_api/error.h>
#include <sluice/c_api/handles.h>
#include <sluice/c_api/options.h>

#include <array>
#include <atomic>
#include <mutex>

#include <sluice/run/jit/fork_gate.h>
#include <sluice/run/ops/race/layers.h>

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
  const ForkGate no_fork;  // a child could never take a mutex that another thread holds
  const std::lock_guard lock(default_device_mutexes[static_cast<std::size_t>(ordinal)]);
  if (sluice_device* device = slot.load(std::memory_order_acquire)) return device;
  Result<sluice_device*> opened = open_device(ordinal, options_from_environment());
  if (opened) slot.store(*opened, std::memory_order_release);
  return opened;
}

namespace {

/// Returns the arguments of a launch.
gemm::Args args_of(const sluice_call& call) {
  const auto data = [&](sluice_operand which) {
    return call.operands[which] != nullptr ? call.operands[which]->data : nullptr;
  };
  const auto floats = [&](sluice_operand which) { return static_cast<const float*>(data(which)); };
  return {.a = data(SLUICE_A),
          .b = data(SLUICE_B),
          .c = data(SLUICE_C),
          .d = data(SLUICE_D),
          .scale_a = floats(SLUICE_SCALE_A),
          .scale_b = floats(SLUICE_SCALE_B),
          .scale_d = floats(SLUICE_SCALE_D),
          .scale_out = static_cast<float*>(data(SLUICE_SCALE_OUT)),
          .bias = data(SLUICE_BIAS),
          .row_factors = floats(SLUICE_ROW_FACTORS),
          .groups = static_cast<const int*>(data(SLUICE_GROUPS)),
          .gamma = data(SLUICE_GAMMA),
          .epsilon = call.epsilon,
          .alpha = call.alpha,
          .beta = call.beta,
          .workspace = call.workspace != nullptr ? call.workspace->workspace.view() : WorkspaceView{},
          .names = call.names};
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

sluice_status sluice_race(const sluice_device* device, const sluice_call* call, int32_t candidates,
                          sluice_plan** plan) {
  return guarded([&] {
    if (device == nullptr) return fail(null_argument("device"));
    const Device& on = device->session.device();
    return give_plan(call, {.info = on.info()}, plan,
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

sluice_status sluice_launch(const sluice_kernel* kernel, const sluice_call* call, sluice_stream stream) {
  return guarded([&] {
    if (kernel == nullptr) return fail(null_argument("kernel"));
    if (const Result<void> good = check_call(call); !good) return fail(good.error());
    return status_of(gemm::launch(kernel->kernel, args_of(*call), stream));
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

sluice_status sluice_run(sluice_device* device, const sluice_call* call, sluice_stream stream) {
  return guarded([&] {
    if (device == nullptr) return fail(null_argument("device"));
    if (const Result<void> good = check_call(call); !good) return fail(good.error());
    return status_of(run(*device, *call, stream));
  });
}

sluice_status sluice_make_ready(sluice_device* device, const sluice_call* calls, int32_t count,
                                int32_t race) {
  return guarded([&] {
    if (device == nullptr || (calls == nullptr && count > 0))
      return fail(null_argument(device == nullptr ? "device" : "calls"));
    if (count < 0) return fail(negative_count(count));
    std::vector<Problem> read;
    for (int32_t i = 0; i < count; ++i) {
      const Result<Problem> problem = problem_of(&calls[i]);
      if (!problem) return fail(problem.error());
      read.push_back(*problem);
    }
    return status_of(device->session.make_ready(read, race));
  });
}

sluice_status sluice_race_layer(int64_t outputs, int64_t inputs, const int32_t* filter, int32_t spatial) {
  return guarded([&] {
    if (spatial < 0 || spatial > 3)
      return fail({ErrorCode::invalid_argument, "spatial = " + std::to_string(spatial) +
                                                    " must be in 0..3: the axes of a convolution's filter, "
                                                    "or 0 for a layer that is none"});
    if (spatial > 0 && filter == nullptr) return fail(null_argument("filter"));
    ops::LayerSizes layer{.outputs = outputs, .inputs = inputs};
    for (int32_t i = 0; i < spatial; ++i) layer.filter[spatial - 1 - i] = filter[i];
    return status_of(ops::let_race(layer));
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
  return guarded([&] {
    if (device == nullptr || what == nullptr)
      return fail(null_argument(device == nullptr ? "device" : "what"));
    Result<QuantizeCall> call = quantization_of(*what);
    if (!call) return fail(call.error());
    if (const Result<void> there =
            check_on({"input", what->input}, call->memory, device->session.device().ordinal());
        !there)
      return fail(there.error());
    if (what->workspace != nullptr) call->args.workspace = what->workspace->workspace.view();
    return status_of(device->session.quantize(*call, stream));
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
