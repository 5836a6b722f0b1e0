// SPDX-License-Identifier: Apache-2.0
// E6: how fast the second kernel of a split product can add up its slices. Times are from graph replays.
// First a variant after a kernel that writes the slices, minus the time of that kernel alone. Then the
// variant after itself.
#include "sum_parts/sums.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>

#include "harness.h"

namespace probe {
namespace {

constexpr int kInGraph = 20, kReplays = 7;
constexpr long kMostSlotBytes = 64l << 20;  // the largest workspace that a plan may request
constexpr long kMostOutputs = 512l * 4608;

struct Size {
  int m, n, tile_m, tile_n;
};
constexpr Size kSizes[] = {{64, 576, 64, 192},
                           {128, 1152, 128, 192},
                           {512, 4608, 128, 192},
                           {1024, 1024, 128, 128},
                           {2048, 512, 128, 128}};
constexpr int kParts[] = {2, 4, 8, 16, 32};
// As in spec/part_sums.h: above this number of units, two groups add instead of four.
constexpr int kLargeSumUnits = 264;

SumParams params_of(const Size& s, int parts, const float* slots, void* d) {
  SumParams p{};
  p.slots = slots, p.d = d, p.parts = parts;
  p.tile_floats = s.tile_m * s.tile_n;
  p.units_per_tile = p.tile_floats / 512;
  p.units = s.m * s.n / 512;
  p.log_groups = p.units > kLargeSumUnits ? 1 : 2;
  p.tiles_across = s.n / s.tile_n;
  p.vectors_across = s.tile_n / 8;
  p.tile_m = s.tile_m, p.tile_n = s.tile_n, p.n = s.n;
  return p;
}

/// Returns the microseconds of one of the `kInGraph` repetitions of `work`: the minimum over replays.
double time_graph(cudaStream_t stream, const std::function<void()>& work) {
  cudaGraph_t graph;
  cudaGraphExec_t exec;
  check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "capture");
  for (int i = 0; i < kInGraph; ++i) work();
  check(cudaStreamEndCapture(stream, &graph), "capture");
  check(cudaGraphInstantiate(&exec, graph, 0), "graph");
  static cudaEvent_t events[2] = {};
  if (events[0] == nullptr)
    for (cudaEvent_t& event : events) check(cudaEventCreate(&event), "event");
  float least = 1e9f;
  for (int i = 0; i < kReplays; ++i) {
    check(cudaEventRecord(events[0], stream), "event");
    check(cudaGraphLaunch(exec, stream), "graph");
    check(cudaEventRecord(events[1], stream), "event");
    check(cudaStreamSynchronize(stream), "replay of a graph");
    float ms = 0;
    check(cudaEventElapsedTime(&ms, events[0], events[1]), "event");
    if (i > 0) least = std::min(least, ms);
  }
  check(cudaGraphExecDestroy(exec), "graph");
  check(cudaGraphDestroy(graph), "graph");
  return least * 1000.0 / kInGraph;
}

/// Computes the sums in the present kernel's order on the CPU. Result by unit and thread.
std::vector<float> expected(const SumParams& p) {
  std::vector<float> sums(static_cast<size_t>(p.units) * 512);
  const int groups = 1 << p.log_groups;
  for (size_t i = 0; i < sums.size(); ++i) {
    const long tile = static_cast<long>(i) / p.tile_floats, inside = static_cast<long>(i) % p.tile_floats;
    float total = 0;
    bool any = false;
    for (int group = 0; group < groups; ++group) {
      const int begin = p.parts * group >> p.log_groups, end = p.parts * (group + 1) >> p.log_groups;
      if (begin == end) continue;
      float sum = 0;
      for (int k = begin; k < end; ++k) {
        // The planted fault adds the slices of a group from the last to the first.
        const int part = planted() ? begin + end - 1 - k : k;
        const float value = slot_value((tile * p.parts + part) * p.tile_floats + inside);
        sum = k == begin ? value : sum + value;
      }
      total = any ? total + sum : sum;
      any = true;
    }
    sums[i] = total;
  }
  return sums;
}

uint16_t bf16_of(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, 4);
  return static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

/// Returns the number of elements of D that differ from the sums.
int wrong_in(const SumParams& p, Store store, const std::vector<float>& sums, const void* d) {
  const long outputs = static_cast<long>(sums.size());
  if (store == Store::nothing) return 0;
  std::vector<float> floats;
  std::vector<uint16_t> halves;
  if (store == Store::floats)
    floats = copy_to_host(static_cast<const float*>(d), outputs);
  else
    halves = copy_to_host(static_cast<const uint16_t*>(d), outputs);
  int wrong = 0;
  for (long i = 0; i < outputs; ++i) {
    const int unit = static_cast<int>(i / 512), thread = i % 512 / 4, element = i % 4;
    const int tile = unit / p.units_per_tile, inside = unit % p.units_per_tile;
    const int row = tile / p.tiles_across * p.tile_m + inside / p.vectors_across * 64 + thread / 32 * 16 +
                    thread % 32 / 4 + element / 2 * 8;
    const int column =
        tile % p.tiles_across * p.tile_n + inside % p.vectors_across * 8 + thread % 4 * 2 + element % 2;
    const long at = static_cast<long>(row) * p.n + column;
    wrong += store == Store::floats ? floats[at] != sums[i] : halves[at] != bf16_of(sums[i]);
  }
  return wrong;
}

struct Memory {
  float* slots;
  void* d;
  cudaStream_t stream;
};

void run_problem(Cases& cases, const Size& size, int parts, const Memory& memory) {
  const SumParams p = params_of(size, parts, memory.slots, memory.d);
  const long floats = static_cast<long>(size.m) * size.n * parts, bytes = floats * 4;
  const std::string shape = format("%dx%d in %d parts", size.m, size.n, parts);
  if (bytes > kMostSlotBytes) return;
  const std::vector<Variant> all = variants();
  const Launch first{memory.stream, false}, dependent{memory.stream, true};
  std::vector<float> sums;  // computed when the first variant runs
  double producer = 0, empty = 0, empty_plain = 0;
  for (const Variant& v : all) {
    if (!cases.begin(shape + ", " + v.name)) continue;
    if (sums.empty()) {
      sums = expected(p);
      const auto produce = [&] { launch_producer(memory.slots, floats, first); };
      const int ctas = p.units;
      producer = time_graph(memory.stream, produce);
      empty = time_graph(memory.stream, [&] { produce(), launch_empty(ctas, dependent); }) - producer;
      empty_plain = time_graph(memory.stream, [&] { produce(), launch_empty(ctas, first); }) - producer;
      std::printf(
          "--- %s: %.1f MB, %d units of 64x8; the producer takes %.2f us; an empty dependent launch adds "
          "%.2f, a plain one %.2f\n",
          shape.c_str(), bytes / 1e6, p.units, producer, empty, empty_plain);
    }
    check(cudaMemset(memory.d, 0xff, kMostOutputs * 4), "memset");
    if (!v.launch(p, first)) {  // the variant does not support this problem
      check(cudaStreamSynchronize(memory.stream), "no launch");
      continue;
    }
    const double behind = time_graph(memory.stream, [&] {
      launch_producer(memory.slots, floats, first);
      v.launch(p, dependent);
    });
    const int wrong = wrong_in(p, v.store, sums, memory.d);
    const double alone = time_graph(memory.stream, [&] { v.launch(p, dependent); });
    const double added = behind - producer;
    const double rate = bytes / (added - empty) * 1e-6, alone_rate = bytes / alone * 1e-6;
    std::printf("%-34s adds %7.2f us, %6.2f TB/s; behind itself %7.2f us, %6.2f TB/s%s\n", v.name.c_str(),
                added, rate, alone, alone_rate,
                wrong == 0 ? "" : format("  WRONG: %d elements", wrong).c_str());
    Line(cases.experiment(), cases.name())
        .add("m", size.m)
        .add("n", size.n)
        .add("parts", parts)
        .add("variant", v.name)
        .add("slot_bytes", static_cast<double>(bytes))
        .add("in_flight_bytes_a_thread", v.in_flight_bytes)
        .add("producer_us", producer)
        .add("empty_dependent_us", empty)
        .add("empty_plain_us", empty_plain)
        .add("added_us", added)
        .add("added_tb_per_s", bytes / added * 1e-6)
        .add("beyond_an_empty_launch_tb_per_s", rate)
        .add("alone_us", alone)
        .add("alone_tb_per_s", alone_rate)
        .add("wrong_elements", wrong)
        .write();
  }
}

void run_sums(Cases& cases) {
  Memory memory{device_array<float>(kMostSlotBytes / 4), device_array<float>(kMostOutputs), nullptr};
  check(cudaStreamCreate(&memory.stream), "stream");
  for (const Size& size : kSizes)
    for (const int parts : kParts) run_problem(cases, size, parts, memory);
  check(cudaStreamSynchronize(memory.stream), "the last sum");
}

}  // namespace
}  // namespace probe

int main(int argc, char** argv) {
  return probe::run_experiments(argc, argv, {{"E6", probe::run_sums, true}});
}
