// SPDX-License-Identifier: Apache-2.0
// Launches the verification kernels. kernels/verify.cuh has the arithmetic, verify_data.cc the memory layout.
#include <sluice/check/verify.h>

#include <algorithm>
#include <bit>

#include <sluice/check/verify_data.h>
#include <sluice/check/verify_units.h>
#include <sluice/kernels/verify_conv.h>
#include <sluice/kernels/verify_model.h>
#include <sluice/run/device/device_impl.h>
#include <sluice/run/driver/error.h>
#include <sluice/run/driver/launch.h>
#include <sluice/run/driver/memory.h>
#include <sluice/try.h>

namespace sluice {

namespace {
constexpr int kThreadsPerBlock = 256;  // kCheckThreads of kernels/verify_check.cuh
constexpr int kBlocksPerSm = 8;

template <class T>
const T* as(const Region& region) {
  return reinterpret_cast<const T*>(region.base + region.element_begin);
}
}  // namespace

struct Verifier::Impl {
  Device device;
  std::shared_ptr<const Module> fill, check;
  DeviceBuffer log;
  int log_slots;

  CheckLog* slot(int index) const { return static_cast<CheckLog*>(log.data()) + index; }

  template <class Params>
  Result<void> launch(const Module& module, i64 blocks, const Params& params, Stream stream) const {
    const ContextScope scope(*device.impl().primary);
    SLUICE_TRY(scope.entered());
    const i64 most = static_cast<i64>(device.info().sm_count) * kBlocksPerSm;
    const u32 grid = static_cast<u32>(std::clamp<i64>(blocks, 1, most));
    return launch_kernel(*device.impl().api, module.function(), {.grid_x = grid, .block_x = kThreadsPerBlock},
                         &params, stream);
  }

  Result<void> fill_or_prove(const ProblemData& data, CheckLog* log_slot, Stream stream) const {
    FillParams params{};
    for (int i = 0; i < kRegionCount; ++i) {
      params.regions[i] = data.region(i);
      params.first_chunk[i + 1] = params.first_chunk[i] + data.region(i).span_bytes / kChunkBytes;
    }
    params.log = log_slot;
    return launch(*fill, ceil_div(params.first_chunk[kRegionCount], i64{kThreadsPerBlock}), params, stream);
  }

  Result<void> fill_all(const ProblemData& data, Stream stream) const {
    SLUICE_TRY(fill_or_prove(data, nullptr, stream));
    const std::vector<int> table = table_of(data.problem(), data.spec().routing, data.spec().seed);
    if (table.empty()) return {};
    const i64 offset =
        reinterpret_cast<const u8*>(data.args().groups) - static_cast<const u8*>(data.memory_->data());
    return data.memory_->upload_async(table.data(), {offset, static_cast<i64>(4 * table.size())}, stream);
  }
};

Result<Verifier> Verifier::create(const Device& device, int log_slots) {
  if (log_slots < 1) return Error{ErrorCode::invalid_argument, "a verifier needs at least one log slot"};
  SLUICE_TAKE(auto fill, device.impl().load_unit(verify_unit_text(VerifyUnit::fill), 0));
  SLUICE_TAKE(auto check, device.impl().load_unit(verify_unit_text(VerifyUnit::check), 0));
  SLUICE_TAKE(auto log, DeviceBuffer::allocate(device, static_cast<i64>(log_slots) * sizeof(CheckLog)));
  SLUICE_TRY(log.fill(0, nullptr));
  SLUICE_TRY(synchronize(device));  // the log is zeroed now, whichever stream uses it next
  return Verifier(std::make_shared<const Impl>(
      Impl{device, std::move(fill), std::move(check), std::move(log), log_slots}));
}

Result<ProblemData> Verifier::make_data(const Problem& problem, const DataSpec& spec, Stream stream) const {
  SLUICE_TAKE(const DataLayout layout, lay_out(problem, spec));
  SLUICE_TAKE(auto memory, DeviceBuffer::allocate(impl_->device, layout.bytes));
  return make_data(problem, spec, std::make_shared<const DeviceBuffer>(std::move(memory)), stream);
}

Result<ProblemData> Verifier::make_data(const Problem& problem, const DataSpec& spec,
                                        std::shared_ptr<const DeviceBuffer> arena, Stream stream) const {
  SLUICE_TAKE(const DataLayout layout, lay_out(problem, spec));
  if (arena == nullptr || arena->bytes() < layout.bytes)
    return Error{ErrorCode::invalid_argument, "the arena is smaller than the " +
                                                  std::to_string(layout.bytes) +
                                                  " bytes that data_bytes() asks for"};
  ProblemData data;
  data.problem_ = with_strides(problem);
  data.spec_ = spec;
  for (int i = 0; i < kRegionCount; ++i) {
    data.regions_[i] = layout.regions[i];
    data.regions_[i].base = static_cast<u8*>(arena->data()) + layout.region_begin[i];
  }
  const Region* r = data.regions_;
  const Epilogue& e = problem.epilogue;
  data.args_ = {.a = as<void>(r[0]),
                .b = as<void>(r[1]),
                .c = e.residual ? as<void>(r[2]) : nullptr,
                .d = const_cast<void*>(as<void>(r[kRegionD])),
                .scale_a = e.scale_a != ScaleMode::none ? as<float>(r[5]) : nullptr,
                .scale_b = e.scale_b != ScaleMode::none ? as<float>(r[6]) : nullptr,
                .scale_d = e.scale_d == ScaleMode::tensor ? as<float>(r[7]) : nullptr,
                .scale_out = writes_scales(e) ? const_cast<float*>(as<float>(r[kRegionScaleOut])) : nullptr,
                .bias = e.bias != Bias::none ? as<void>(r[4]) : nullptr,
                .row_factors = e.row_factors ? as<float>(r[kRegionRowFactors]) : nullptr,
                .groups = reads_table(problem) ? as<int>(r[kRegionGroups]) : nullptr,
                .alpha = spec.alpha,
                .beta = spec.beta};
  data.memory_ = std::move(arena);
  SLUICE_TRY(impl_->fill_all(data, stream));
  return data;
}

Result<void> Verifier::refill(ProblemData& data, u64 seed, Stream stream) const {
  DataSpec spec = data.spec_;
  spec.seed = seed;
  return refill(data, spec, stream);
}

Result<void> Verifier::refill(ProblemData& data, const DataSpec& given, Stream stream) const {
  DataSpec spec = given;
  spec.element_shift = data.spec_.element_shift;
  spec.d_shift = data.spec_.d_shift;
  SLUICE_TAKE(const DataLayout layout, lay_out(data.problem_, spec));
  for (int i = 0; i < kRegionCount; ++i) {
    data.regions_[i].seed = layout.regions[i].seed;
    data.regions_[i].fill = layout.regions[i].fill;
  }
  data.args_.alpha = spec.alpha;
  data.args_.beta = spec.beta;
  data.spec_ = spec;
  return impl_->fill_all(data, stream);
}

Result<void> Verifier::enqueue_check(const ProblemData& data, const CheckSpec& spec, int slot,
                                     Stream stream) const {
  if (slot < 0 || slot >= impl_->log_slots)
    return Error{ErrorCode::invalid_argument, "log slot " + std::to_string(slot) + " must be in 0.." +
                                                  std::to_string(impl_->log_slots - 1)};
  if (spec.judge == Judge::exact && !holds_exact_sums(data.problem(), data.spec()))
    return Error{ErrorCode::invalid_argument,
                 "data of magnitude " + std::to_string(data.spec().a.magnitude) + " x " +
                     std::to_string(data.spec().b.magnitude) + " are too large for exact sums of k = " +
                     std::to_string(data.problem().k) + ": take exact_data(), or judge within bounds"};
  SLUICE_TRY(impl_->fill_or_prove(data, impl_->slot(slot), stream));
  const Problem p = verify::judged_problem(data.problem());
  const gemm::Args& args = data.args();
  const i64 rows = ceil_div(p.m, i64{kCheckTile}), columns = ceil_div(d_columns(p), i64{kCheckTile});
  const i64 blocks = rows * columns * d_matrices(p);
  if (blocks == 0) return {};
  const double products = static_cast<double>(blocks) * kCheckTile * kCheckTile * static_cast<double>(p.k);
  const double every =
      spec.judge == Judge::unwritten ? 1.0 : products / static_cast<double>(spec.max_products);
  const CheckParams params{.problem = p,
                           .y_size = verify::y_size_of(p.conv),
                           .a = args.a,
                           .b = args.b,
                           .c = args.c,
                           .d = args.d,
                           .scale_a = args.scale_a,
                           .scale_b = args.scale_b,
                           .scale_d = args.scale_d,
                           .row_factors = args.row_factors,
                           .scale_out = args.scale_out,
                           .bias = args.bias,
                           .groups = args.groups,
                           .alpha = args.alpha,
                           .beta = args.beta,
                           .activation_error = spec.activation_error,
                           .old_d = data.region(kRegionD).fill,
                           .old_d_seed = data.region(kRegionD).seed,
                           .judge = spec.judge,
                           .block_rows = rows,
                           .block_columns = columns,
                           .sample_every = static_cast<u64>(std::max(1.0, every)),
                           .log = impl_->slot(slot)};
  return impl_->launch(*impl_->check, blocks, params, stream);
}

Result<Comparison> Verifier::check(const ProblemData& data, const CheckSpec& spec, Stream stream) const {
  SLUICE_TRY(enqueue_check(data, spec, 0, stream));
  SLUICE_TAKE(auto found, read_log(1, stream));
  return std::move(found.front());
}

namespace {

i64 low_of(u64 complement) {
  return complement == 0 ? -1 : static_cast<i64>(~complement);
}

Comparison comparison_of(const CheckLog& log) {
  const u64 examples = std::min<u64>(log.wrong, kLoggedElements);
  const verify::Totals totals = verify::totals_of(log);
  return {.checked = static_cast<i64>(log.checked),
          .wrong = static_cast<i64>(log.wrong),
          .unwritten = static_cast<i64>(log.unwritten),
          .damaged_chunks = static_cast<i64>(log.damaged_chunks),
          .damage_address = log.damage_address == 0 ? 0 : ~log.damage_address,
          .inexact_inputs = static_cast<i64>(log.inexact_inputs),
          .row_low = low_of(log.row_low),
          .row_high = static_cast<i64>(log.row_high) - 1,
          .column_low = low_of(log.column_low),
          .column_high = static_cast<i64>(log.column_high) - 1,
          .worst_ratio = std::bit_cast<double>(log.worst_ratio_bits),
          .mean_error = log.checked == 0 ? 0.0 : log.error_sum / static_cast<double>(log.checked),
          .norm_ratio = verify::norm_ratio_of(totals),
          .mean_ratio = verify::mean_ratio_of(totals),
          .examples = {log.elements, log.elements + examples}};
}

}  // namespace

Result<std::vector<Comparison>> Verifier::read_log(int count, Stream stream) const {
  if (count < 0 || count > impl_->log_slots)
    return Error{ErrorCode::invalid_argument,
                 "the verifier has " + std::to_string(impl_->log_slots) + " log slots"};
  std::vector<CheckLog> slots(count);
  const i64 bytes = static_cast<i64>(count) * sizeof(CheckLog);
  SLUICE_TRY(impl_->log.download_async(slots.data(), bytes, stream));
  const ContextScope scope(*impl_->device.impl().primary);
  SLUICE_TRY(scope.entered());
  const DriverApi& api = *impl_->device.impl().api;
  if (const CUresult code = api.cuStreamSynchronize(stream); code != CUDA_SUCCESS)
    return driver_error(api, code, "cuStreamSynchronize", "after verification");
  if (const CUresult code = api.cuMemsetD8Async(impl_->log.address(), 0, bytes, stream); code != CUDA_SUCCESS)
    return driver_error(api, code, "cuMemsetD8Async", "of the verification log");
  std::vector<Comparison> found;
  for (const CheckLog& slot : slots) found.push_back(comparison_of(slot));
  return found;
}

}  // namespace sluice
