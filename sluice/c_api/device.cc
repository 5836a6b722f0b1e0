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

using gemm::prepare, gemm::race;
using packed::prepare, packed::race;

Result<void> launch_with(const gemm::Kernel& kernel, const sluice_pointers& p, const WorkspaceView& workspace,
                         Stream stream) {
  return gemm::launch(kernel,
                      {.a = p.a,
                       .b = p.b,
                       .c = p.c,
                       .d = p.d,
                       .scale_a = p.scale_a,
                       .scale_b = p.scale_b,
                       .scale_d = p.scale_d,
                       .bias = p.bias,
                       .alpha = p.alpha,
                       .beta = p.beta,
                       .workspace = workspace},
                      stream);
}
Result<void> launch_with(const packed::Kernel& kernel, const sluice_pointers& p, const WorkspaceView&,
                         Stream stream) {
  return packed::launch(kernel,
                        {.x = p.a,
                         .weights = p.b,
                         .d = p.d,
                         .bias = p.bias,
                         .scale_x = p.scale_a,
                         .scale_d = p.scale_d,
                         .gamma = p.gamma,
                         .epsilon = p.epsilon,
                         .c = p.c},
                        stream);
}

Result<void> run_call(sluice_device& device, DenseCall& call, const WorkspaceView& workspace, Stream stream) {
  call.args.workspace = workspace;
  return device.session.run(call.problem, call.args, stream);
}
Result<void> run_call(sluice_device& device, PackedCall& call, const WorkspaceView&, Stream stream) {
  return device.session.run(call.problem, call.args, stream);
}
Result<void> run_call(sluice_device& device, ConvCall& call, const WorkspaceView& workspace, Stream stream) {
  call.args.workspace = workspace;
  return device.session.run(call.problem, call.args, stream);
}
Result<void> run_call(sluice_device& device, ProductCall& found, const WorkspaceView& workspace,
                      Stream stream) {
  return std::visit([&](auto& call) { return run_call(device, call, workspace, stream); }, found.call);
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
  const Result<void> done = run_call(*device, *found, workspace, stream);
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

/// Prepares all problems of one kind (P), dense or packed. `ready` calls the session's make_ready.
template <class P, class Ready>
sluice_status make_ready(const std::vector<AnyProblem>& problems, const Ready& ready) {
  std::vector<P> of_kind;
  for (const AnyProblem& problem : problems)
    if (const P* const one = std::get_if<P>(&problem)) of_kind.push_back(*one);
  if (of_kind.empty()) return SLUICE_OK;
  const Result<void> done = ready(of_kind);
  return done ? SLUICE_OK : fail(in_c_names(done.error()));
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
                     [&](const auto& of) { return race(on, of, candidates); });
  });
}

sluice_status sluice_prepare(const sluice_device* device, const sluice_plan* plan, sluice_kernel** kernel) {
  return guarded([&] {
    if (device == nullptr || plan == nullptr || kernel == nullptr)
      return fail(null_argument(device == nullptr ? "device" : plan == nullptr ? "plan" : "kernel"));
    return std::visit(
        [&](const auto& planned) {
          const auto prepared = prepare(device->session.device(), planned);
          if (!prepared) return fail(prepared.error());
          *kernel = new sluice_kernel{*prepared};
          return SLUICE_OK;
        },
        plan->plan);
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
    return status_of(std::visit([&](const auto& prepared) { return launch_with(prepared, *p, view, stream); },
                                kernel->kernel));
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
    std::vector<AnyProblem> read;
    for (int32_t i = 0; i < count; ++i) {
      const Result<AnyProblem> problem = problem_of(problems[i]);
      if (!problem) return fail(problem.error());
      read.push_back(*problem);
    }
    const sluice_status status =
        make_ready<Problem>(read, [&](const auto& dense) { return device->session.make_ready(dense); });
    if (status != SLUICE_OK) return status;
    return make_ready<PackedProblem>(read,
                                     [&](const auto& packed) { return device->session.make_ready(packed); });
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
