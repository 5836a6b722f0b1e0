// SPDX-License-Identifier: Apache-2.0
#include "overlap_contract.h"

#include <sluice/run/device/device_impl.h>
#include <sluice/run/driver/events.h>
#include <sluice/run/driver/launch.h>

namespace sluice::testing {
namespace {

constexpr int kSleepUs = 100;  // a hundred times the duration of a small kernel
constexpr u8 kPoison = 0xff;   // NaN in every type

struct CopyParams {
  const u8* from;
  u8* to;
  i64 bytes;
  int sleep_us;
};

std::string copy_unit(bool waits) {
  return std::string(R"(
struct CopyParams { const unsigned char* from; unsigned char* to; long long bytes; int sleep_us; };
__device__ unsigned long long now() {
  unsigned long long time;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(time));
  return time;
}
extern "C" __global__ void sluice_entry(const __grid_constant__ CopyParams params) {
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
)") + (waits ? "  asm volatile(\"griddepcontrol.wait;\" ::: \"memory\");\n" : "") +
         R"(  const unsigned long long end = now() + params.sleep_us * 1000ull;
  while (now() < end) __nanosleep(1000);
  const long long step = gridDim.x * blockDim.x;
  const volatile unsigned char* from = params.from;
  for (long long i = blockIdx.x * blockDim.x + threadIdx.x; i < params.bytes; i += step) params.to[i] = from[i];
}
)";
}

Result<void> filled(const std::vector<const DeviceBuffer*>& buffers, u8 value, Stream stream) {
  for (const DeviceBuffer* buffer : buffers)
    if (const Result<void> done = buffer->fill(value, stream); !done) return done;
  return {};
}

Result<std::vector<u8>> contents(const DeviceBuffer& buffer) {
  std::vector<u8> bytes(static_cast<std::size_t>(buffer.bytes()));
  if (const Result<void> done = buffer.download(bytes.data(), buffer.bytes()); !done) return done.error();
  return bytes;
}

Result<std::vector<u8>> contents(const std::vector<const DeviceBuffer*>& buffers) {
  std::vector<u8> all;
  for (const DeviceBuffer* buffer : buffers) {
    const auto one = contents(*buffer);
    if (!one) return one.error();
    all.insert(all.end(), one->begin(), one->end());
  }
  return all;
}

i64 differences(const std::vector<u8>& x, const std::vector<u8>& y) {
  i64 count = 0;
  for (std::size_t i = 0; i < x.size(); ++i) count += x[i] != y[i] ? 1 : 0;
  return count;
}

/// Enqueues everything before anything runs, so that only the kernels' own waits order them.
Result<void> run(const Device& device, Stream stream, bool in_graph,
                 const std::function<Result<void>()>& enqueue) {
  if (!in_graph) {
    if (const Result<void> done = enqueue(); !done) return done;
    return synchronize(device);
  }
  const auto graph = Graph::capture(device, stream, enqueue);
  if (!graph) return graph.error();
  if (const Result<void> done = graph->launch(stream); !done) return done;
  return synchronize(device);
}

}  // namespace

Result<LateCopy> LateCopy::create(const Device& device) {
  const auto first = device.impl().load_unit(copy_unit(false), 0);
  if (!first) return first.error();
  const auto chained = device.impl().load_unit(copy_unit(true), 0);
  if (!chained) return chained.error();
  return LateCopy(device, *first, *chained);
}

Result<void> LateCopy::launch(const Job& job, Stream stream) const {
  const CopyParams params{static_cast<const u8*>(job.from), static_cast<u8*>(job.to), job.bytes,
                          job.sleep_us};
  const ContextScope scope(*device_.impl().primary);
  if (const Result<void> entered = scope.entered(); !entered) return entered;
  return launch_kernel(*device_.impl().api, (job.chained ? chained_ : first_)->function(),
                       {.grid_x = 8, .block_x = 256, .dependent = job.chained}, &params, stream);
}

Result<i64> bytes_that_differ(const Device& device, const Chained& alone, const Chained& chained,
                              bool in_graph) {
  const auto stream = StreamHandle::create(device);
  const auto copy = LateCopy::create(device);
  const auto truth = contents(*chained.input);
  const auto kept = DeviceBuffer::allocate(device, chained.input->bytes());
  if (!stream) return stream.error();
  if (!copy) return copy.error();
  if (!truth) return truth.error();
  if (!kept) return kept.error();
  if (const auto done = kept->upload(truth->data(), kept->bytes()); !done) return done.error();

  if (const auto done = filled(alone.outputs, kPoison, stream->get()); !done) return done.error();
  if (const auto done = synchronize(device); !done) return done.error();
  if (const auto done = alone.input->upload(truth->data(), kept->bytes()); !done) return done.error();
  if (const auto done = run(device, stream->get(), in_graph, [&] { return alone.launch(stream->get()); });
      !done)
    return done.error();
  const auto wanted = contents(alone.outputs);
  if (!wanted) return wanted.error();

  if (const auto done = filled(chained.outputs, kPoison, stream->get()); !done) return done.error();
  if (const auto done = chained.input->fill(kPoison, stream->get()); !done) return done.error();
  if (const auto done = synchronize(device); !done) return done.error();
  const auto ran = run(device, stream->get(), in_graph, [&]() -> Result<void> {
    const LateCopy::Job job{kept->data(), chained.input->data(), kept->bytes(), kSleepUs, false};
    if (const Result<void> produced = copy->launch(job, stream->get()); !produced) return produced;
    return chained.launch(stream->get());
  });
  if (!ran) return ran.error();
  const auto got = contents(chained.outputs);
  if (!got) return got.error();
  if (const auto done = chained.input->upload(truth->data(), kept->bytes()); !done) return done.error();
  return differences(*wanted, *got);
}

Result<i64> bytes_written_early(const Device& device, const Chained& chained) {
  const auto stream = StreamHandle::create(device);
  const auto copy = LateCopy::create(device);
  if (!stream) return stream.error();
  if (!copy) return copy.error();
  i64 early = 0;
  for (const DeviceBuffer* output : chained.outputs) {
    const auto seen = DeviceBuffer::allocate(device, output->bytes());
    const auto other = DeviceBuffer::allocate(device, 512);
    if (!seen) return seen.error();
    if (!other) return other.error();
    constexpr u8 kOld = 0x5a;
    if (const auto done = output->fill(kOld, stream->get()); !done) return done.error();
    if (const auto done = synchronize(device); !done) return done.error();
    const auto ran = run(device, stream->get(), false, [&]() -> Result<void> {
      const LateCopy::Job reads_late{output->data(), seen->data(), output->bytes(), kSleepUs, false};
      if (const Result<void> done = copy->launch(reads_late, stream->get()); !done) return done;
      const LateCopy::Job between{other->data(), static_cast<u8*>(other->data()) + 256, 256, 0, true};
      if (const Result<void> done = copy->launch(between, stream->get()); !done) return done;
      return chained.launch(stream->get());
    });
    if (!ran) return ran.error();
    const auto got = contents(*seen);
    if (!got) return got.error();
    for (const u8 byte : *got) early += byte != kOld ? 1 : 0;
  }
  return early;
}

}  // namespace sluice::testing
