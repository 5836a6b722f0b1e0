// SPDX-License-Identifier: Apache-2.0
// The grid has one CTA per SM: it has as many CTAs as SMs, and each CTA needs more than half of an SM's
// shared memory.
#include "bench/sm_clock.h"

#include <algorithm>
#include <vector>

#include <sluice/run/driver/memory.h>
#include <sluice/try.h>

#include "bench/device.h"

namespace sluice::bench {
namespace {

constexpr int kSmemBytes = 160 << 10;

struct NoteParams {
  CUdeviceptr notes;  // where to store the clocks at this edge, one ClockNote per SM
  u32 count;
};

constexpr const char* kUnit = R"(struct Note { unsigned long long cycles, nanoseconds; };
struct NoteParams { Note* notes; unsigned count; };
extern "C" __global__ void __launch_bounds__(32) sluice_entry(const __grid_constant__ NoteParams params) {
  if (threadIdx.x != 0) return;
  unsigned sm;
  Note note;
  asm volatile("mov.u32 %0, %%smid;" : "=r"(sm));
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(note.nanoseconds));
  asm volatile("mov.u64 %0, %%clock64;" : "=l"(note.cycles));
  if (sm < params.count) params.notes[sm] = note;
}
)";

}  // namespace

const char* SmClock::unit_text() {
  return kUnit;
}

Result<SmClock> SmClock::create(const Device& device) {
  SLUICE_TAKE(auto module, load_unit(device, kUnit, kSmemBytes));
  const i64 bytes = i64{2} * device.info().sm_count * static_cast<i64>(sizeof(ClockNote));
  SLUICE_TAKE(DeviceBuffer notes, DeviceBuffer::allocate(device, bytes));
  const std::vector<u8> zeros(static_cast<size_t>(bytes));
  SLUICE_TRY(notes.upload(zeros.data(), bytes));
  return SmClock(device, std::move(module), std::move(notes));
}

Result<void> SmClock::note(Edge edge, Stream stream) const {
  const u32 count = static_cast<u32>(device_.info().sm_count);
  const CUdeviceptr offset = edge == Edge::end ? count * sizeof(ClockNote) : 0;
  const NoteParams params{notes_.address() + offset, count};
  return launch_module(device_, *module_, {.grid_x = count, .block_x = 32, .smem_bytes = kSmemBytes}, &params,
                       stream);
}

Result<double> SmClock::mhz() const {
  const size_t count = static_cast<size_t>(device_.info().sm_count);
  std::vector<ClockNote> notes(2 * count);
  SLUICE_TRY(notes_.download(notes.data(), notes_.bytes()));
  const std::span all(notes);
  return mean_mhz(all.first(count), all.last(count));
}

double mean_mhz(std::span<const ClockNote> begin, std::span<const ClockNote> end) {
  double sum = 0;
  int noted = 0;
  for (size_t sm = 0; sm < std::min(begin.size(), end.size()); ++sm) {
    if (begin[sm].nanoseconds == 0 || end[sm].nanoseconds <= begin[sm].nanoseconds) continue;
    sum += 1e3 * static_cast<double>(end[sm].cycles - begin[sm].cycles) /
           static_cast<double>(end[sm].nanoseconds - begin[sm].nanoseconds);
    ++noted;
  }
  return noted > 0 ? sum / noted : 0;
}

}  // namespace sluice::bench
