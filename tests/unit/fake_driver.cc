// SPDX-License-Identifier: Apache-2.0
// Construction and test handles of the fake driver. Its functions are in fake_driver_calls.cc and
// fake_driver_memory.cc.
#include "fake_driver.h"

#include <cstdlib>

#include <sluice/run/device/device_impl.h>

#include "fake_driver_state.h"

namespace sluice {

using fake::state;

FakeDriver::FakeDriver() {
  // Driver functions that the library does not use stay null, so that a new use crashes at once.
  static const DriverApi api = [] {
    DriverApi table;
    fake::fill_contexts(table);
    fake::fill_kernels(table);
    fake::fill_memory(table);
    fake::fill_streams(table);
    return table;
  }();
  state = new fake::State;
  state->driver = this;
  fake::capture_mode = CU_STREAM_CAPTURE_MODE_GLOBAL;  // a failed test may have left another mode
  make_current(-1);
  replace_driver_for_test(&api);
  replace_nvml_for_test(&fake::fake_nvml());
}

FakeDriver::~FakeDriver() {
  replace_driver_for_test(nullptr);
  replace_nvml_for_test(nullptr);
  make_current(-1);
  for (const auto& [address, block] : state->blocks) std::free(reinterpret_cast<void*>(address));
  delete state;
  state = nullptr;
}

void FakeDriver::fail_call(int index, CUresult code) {
  const std::lock_guard lock(state->mutex);
  state->calls = 0;
  state->fail_index = index;
  state->fail_name = nullptr;
  state->fail_code = code;
  state->last_failed = "";
}

void FakeDriver::fail_function(const char* name, CUresult code) {
  fail_call(-1, code);
  state->fail_name = name;
}

void FakeDriver::fail_nothing() {
  fail_call(-1, CUDA_SUCCESS);
}

void FakeDriver::make_current(int ordinal) {
  fake::depth = 0;
  if (ordinal >= 0) fake::stack[fake::depth++] = fake::context_of(ordinal);
}

void* FakeDriver::memory(i64 bytes, int ordinal, unsigned kind) {
  const std::lock_guard lock(state->mutex);
  return reinterpret_cast<void*>(fake::add_block(bytes, {bytes, ordinal, kind}));
}

void FakeDriver::make_edges_full() {
  state->full_edges = true;
}

void FakeDriver::make_fast(u32 smem_bytes) {
  state->fast_smem = smem_bytes;
}

void FakeDriver::make_wrong(std::function<bool(const LaunchRecord&)> is_wrong) {
  state->is_wrong = std::move(is_wrong);
}

void FakeDriver::make_noise(double share, u64 seed) {
  state->noise = share;
  state->noise_state = seed;
}

void FakeDriver::make_overlap_gain(float milliseconds, int most) {
  state->gain_ms = milliseconds;
  state->most_gaining = most;
}

void FakeDriver::fork_capture(CUstream origin, CUstream branch) {
  const std::lock_guard lock(state->mutex);
  const auto& from = *reinterpret_cast<const fake::FakeStream*>(origin);
  auto& to = *reinterpret_cast<fake::FakeStream*>(branch);
  to.captured = from.captured;
  to.capture_id = from.capture_id;
  ++state->capturing;
}

void FakeDriver::lose_captures() {
  state->loses_captures = true;
}

void FakeDriver::block_launches(int ordinal) {
  const std::lock_guard lock(state->block.mutex);
  state->block.ordinal = ordinal;
}

void FakeDriver::block_loads(int ordinal) {
  const std::lock_guard lock(state->block.mutex);
  state->block.loads_ordinal = ordinal;
}

bool FakeDriver::unblock() {
  const std::lock_guard lock(state->block.mutex);
  state->block.ordinal = state->block.loads_ordinal = -1;
  state->block.changed.notify_all();
  return !state->block.gave_up;
}

int FakeDriver::blocked() const {
  const std::lock_guard lock(state->block.mutex);
  return state->block.waiting;
}

void FakeDriver::give_memory_to(void* memory, int ordinal, unsigned kind) {
  const std::lock_guard lock(state->mutex);
  fake::Block& block = state->blocks.at(reinterpret_cast<u64>(memory));
  block.ordinal = ordinal;
  block.kind = kind;
}

CUstream FakeDriver::foreign_stream() {
  return reinterpret_cast<CUstream>(&state->foreign);
}

int FakeDriver::calls() const {
  const std::lock_guard lock(state->mutex);
  return state->calls;
}

const char* FakeDriver::last_failed() const {
  return state->last_failed;
}

int FakeDriver::launches() const {
  const std::lock_guard lock(state->mutex);
  return state->launches;
}

const LaunchRecord& FakeDriver::launch(int index) const {
  return state->records.at(static_cast<std::size_t>(index));
}

Alive FakeDriver::alive() const {
  const std::lock_guard lock(state->mutex);
  return state->alive;
}

DecodedMap decode(const TensorMap& map) {
  const u64* w = map.words;
  const auto byte = [&](int index) { return static_cast<int>(w[7] >> 8 * index & 0xFF); };
  return {.address = w[0],
          .inner = w[1],
          .outer = w[2],
          .batch = w[3],
          .row_stride = w[4],
          .batch_stride = w[5],
          .box_inner = static_cast<int>(w[6] & 0xFFFF),
          .box_outer = static_cast<int>(w[6] >> 16 & 0xFFFF),
          .box_batch = static_cast<int>(w[6] >> 32),
          .type = byte(0),
          .swizzle = byte(1),
          .l2_promotion = byte(2),
          .oob_fill = byte(3),
          .interleave = byte(4),
          .rank = byte(5),
          .fourth = w[9],
          .fifth = w[10],
          .third_stride = w[11],
          .fourth_stride = w[12],
          .box_fourth = static_cast<int>(w[13] & 0xFFFF),
          .box_fifth = static_cast<int>(w[13] >> 32)};
}

Result<Device> open_fake_device(const Options& options, int ordinal) {
  Result<Device> device = Device::open(ordinal, options);
  if (device) device->info();  // query these now, before a test counts or fails calls
  if (device)
    device->impl().cache = KernelCache(options, {.version = [] { return std::string("fake 1.0"); },
                                                 .compile = [](const std::string& unit) -> Result<Cubin> {
                                                   return Cubin{.image = fake::fake_image(unit),
                                                                .report = {.compiler = "fake 1.0"}};
                                                 }});
  return device;
}

}  // namespace sluice
