// SPDX-License-Identifier: Apache-2.0
#include <sluice/host/ops/race.h>

#include <cmath>

#include <sluice/host/ops/replay_timer.h>

namespace sluice::ops {
namespace {

constexpr i64 kOperandAlign = 256;
constexpr i64 kSeedBytes = i64{1} << 20;  // made on the host; the device repeats them
constexpr int kMostCopies = 64;
constexpr double kColdShare = 2.0;          // all copies together, of L2
constexpr int kRounds = 9, kFewRounds = 3;  // few: one launch is longer than a round
constexpr double kRoundUs = 300;
constexpr double kMostLaunches = 256;

/// Returns bytes of which any 1, 2 or 4 are a finite number in every type, of a magnitude in 2^-31..2. Signs
/// and digits are random, because tensor cores draw power by the bits that change.
std::vector<u8> small_numbers() {
  std::vector<u8> bytes(kSeedBytes);
  u64 state = 0x9e3779b97f4a7c15;
  for (u8& byte : bytes) {
    state = state * 6364136223846793005 + 1442695040888963407;
    byte = static_cast<u8>((state >> 56 & 0x8f) | 0x30);
  }
  return bytes;
}

}  // namespace

Result<RaceMemory> RaceMemory::create(const Device& device, const Operands& operands, Stream stream) {
  RaceMemory made;
  made.offsets_.fill(-1);
  for (int i = 0; i < operands.size(); ++i) {
    if (!operands[i].used || operands[i].role == Role::scratch) continue;
    made.offsets_[static_cast<size_t>(i)] = made.copy_bytes_;
    const i64 bytes = span_bytes(operands[i].memory);
    if (bytes > kMostRaceBytes - made.copy_bytes_ - kOperandAlign)
      return Error{ErrorCode::invalid_size, "a race needs all operands at once, and they are more than " +
                                                std::to_string(kMostRaceBytes >> 30) +
                                                " GiB: time such a problem with sluice tune"};
    made.copy_bytes_ += round_up(bytes, kOperandAlign);
  }
  const i64 copy = std::max(made.copy_bytes_, kOperandAlign);
  const double cold = kColdShare * static_cast<double>(device.info().l2_bytes);
  made.copies_ =
      static_cast<int>(std::clamp<i64>(static_cast<i64>(std::ceil(cold / static_cast<double>(copy))), 1,
                                       std::min<i64>(kMostCopies, kMostRaceBytes / copy)));
  SLUICE_TAKE(made.memory_, DeviceBuffer::allocate(device, copy * made.copies_));
  const std::vector<u8> seed = small_numbers();
  const i64 first = std::min<i64>(kSeedBytes, made.memory_.bytes());
  SLUICE_TRY(made.memory_.upload(seed.data(), first));
  SLUICE_TRY(made.memory_.repeat(first, stream));
  return made;
}

Pointers RaceMemory::at(int copy) const {
  Pointers pointers;
  for (size_t i = 0; i < offsets_.size(); ++i)
    if (offsets_[i] >= 0)
      pointers.at[i] = static_cast<const u8*>(memory_.data()) + copy * copy_bytes_ + offsets_[i];
  return pointers;
}

std::unique_lock<std::mutex> race_turn() {
  static std::mutex one_race;
  return std::unique_lock(one_race);
}

Result<std::vector<RaceTimes>> race_times(const Device& device, Stream stream, std::span<const Racer> racers,
                                          int copies) {
  const double estimate = std::max(racers[0].estimate_us, 0.1);
  const int launches = static_cast<int>(std::clamp(std::ceil(kRoundUs / estimate), 1.0, kMostLaunches));
  const int rounds = estimate > kRoundUs ? kFewRounds : kRounds;
  std::vector<std::optional<Graph>> graphs;
  for (const Racer& racer : racers) {
    auto graph = Graph::capture(device, stream, [&]() -> Result<void> {
      for (int i = 0; i < launches; ++i) SLUICE_TRY(racer.call(i % copies, stream));
      return {};
    });
    if (!graph && graphs.empty()) return graph.error();
    graphs.push_back(graph ? std::optional(*std::move(graph)) : std::nullopt);
  }
  SLUICE_TAKE(const ReplayTimer timer, ReplayTimer::create(device));
  std::vector<RaceTimes> times(racers.size());
  SLUICE_TRY(for_each_turn(graphs.size(), rounds, [&](size_t i) -> Result<void> {
    if (!graphs[i]) return {};
    SLUICE_TAKE(const double us, timer.time(stream, [&] { return graphs[i]->launch(stream); }));
    times[i].push_back(us / launches);
    return {};
  }));
  return times;
}

}  // namespace sluice::ops
