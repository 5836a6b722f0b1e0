// SPDX-License-Identifier: Apache-2.0
#include <sluice/run/ops/race.h>

#include <algorithm>
#include <cmath>
#include <map>

#include <sluice/kernels/verify_arith.h>
#include <sluice/run/device/capture.h>
#include <sluice/run/ops/replay_timer.h>

namespace sluice::ops {
namespace {

constexpr i64 kOperandAlign = 256;
// Made on the host; the device repeats them. The size is 16 times a prime number, so that rows and tiles of
// an operand differ: a kernel that takes one for another is found.
constexpr i64 kSeedBytes = 16 * 65521;
constexpr int kMostCopies = 64;
constexpr double kColdShare = 2.0;          // all copies together, of L2
constexpr int kRounds = 9, kFewRounds = 5;  // few: one launch is longer than a round
constexpr double kRoundUs = 300;
constexpr double kMostLaunches = 256;
constexpr double kSumsShare =
    1.0 / 16;  // relative to the root mean square: sums in another order, split sums

/// Returns numbers of a magnitude in 1/4..2 with random signs and digits, because tensor cores draw power by
/// the bits that change. Without a type: bytes of which any 1, 2 or 4 are a finite number of every type.
std::vector<u8> numbers_of(std::optional<DType> type) {
  std::vector<u8> bytes(kSeedBytes);
  u64 state = 0x9e3779b97f4a7c15;
  const auto random = [&] {
    state = state * 6364136223846793005 + 1442695040888963407;
    return state >> 32;
  };
  if (!type) {
    for (u8& byte : bytes) byte = static_cast<u8>((random() >> 24 & 0x8f) | 0x30);
    return bytes;
  }
  const verify::CodeLayout layout = verify::code_layout(*type);
  const int size = bytes_of(*type);
  for (size_t at = 0; at < bytes.size(); at += static_cast<size_t>(size)) {
    const u64 word = random();
    const u64 exponent = static_cast<u64>(verify::bias_of(layout)) - word % 3;
    const u64 fraction = word >> 4 & ((u64{1} << layout.fraction_bits) - 1);
    const u64 sign = word >> 31 & 1;
    const u64 code = (sign << layout.exponent_bits | exponent) << layout.fraction_bits | fraction;
    for (int i = 0; i < size; ++i) bytes[at + static_cast<size_t>(i)] = static_cast<u8>(code >> 8 * i);
  }
  return bytes;
}

Error too_large(i64 most_bytes) {
  const bool whole = most_bytes % (i64{1} << 30) == 0;
  return {ErrorCode::invalid_size, "a race needs all operands at once, and they are more than " +
                                       std::to_string(most_bytes >> (whole ? 30 : 20)) +
                                       (whole ? " GiB" : " MiB") + ": time such a problem with sluice tune"};
}

/// Random data by element type, for each type that the operands have.
class Seeds {
 public:
  const std::vector<u8>& of(std::optional<DType> type) {
    std::vector<u8>& seed = made_[type];
    if (seed.empty()) seed = numbers_of(type);
    return seed;
  }

 private:
  std::map<std::optional<DType>, std::vector<u8>> made_;
};

Result<void> fill(const DeviceBuffer& memory, DeviceBuffer::Range range, const std::vector<u8>& seed,
                  Stream stream) {
  if (range.bytes == 0) return {};
  const i64 first = std::min<i64>(kSeedBytes, range.bytes);
  SLUICE_TRY(memory.upload_async(seed.data(), {range.offset, first}, stream));
  return memory.repeat(first, range, stream);
}

/// Whether each racer's result is like that of racer `reference`, whose launch must succeed.
Result<std::vector<bool>> like(size_t reference, std::span<const Racer> racers, const RaceMemory& memory,
                               Comparison& comparison, const StreamHandle& stream) {
  SLUICE_TRY(memory.renew_result(stream.get()));
  SLUICE_TRY(racers[reference].call(0, stream.get()));
  SLUICE_TRY(memory.keep_result(stream.get()));
  std::vector<size_t> launched;
  for (size_t i = 0; i < racers.size(); ++i) {
    if (i == reference) continue;
    SLUICE_TRY(memory.renew_result(stream.get()));
    if (!racers[i].call(0, stream.get())) continue;
    SLUICE_TRY(comparison.add(memory.results(), memory.tolerance(), stream.get()));
    launched.push_back(i);
  }
  SLUICE_TAKE(const std::vector<bool> verdicts, comparison.verdicts(stream));
  std::vector<bool> alike(racers.size(), false);
  alike[reference] = true;
  for (size_t i = 0; i < launched.size(); ++i) alike[launched[i]] = verdicts[i];
  return alike;
}

size_t count_of(const std::vector<bool>& alike) {
  return static_cast<size_t>(std::count(alike.begin(), alike.end(), true));
}

}  // namespace

i64 RaceMemory::all_bytes() const {
  return fresh_offset_ + round_up(result_bytes_, kOperandAlign);
}

Result<RaceMemory> RaceMemory::sized(const Device& device, const Operands& operands, double sums_share,
                                     i64 most_bytes) {
  RaceMemory made;
  made.offsets_.fill(-1);
  for (int i = 0; i < operands.size(); ++i) {
    if (!operands[i].used || operands[i].role == Role::scratch) continue;
    made.offsets_[static_cast<size_t>(i)] = made.copy_bytes_;
    const i64 bytes = span_bytes(operands[i].memory);
    if (bytes > most_bytes - made.copy_bytes_ - kOperandAlign) return too_large(most_bytes);
    if (operands[i].role == Role::write && made.result_bytes_ == 0) {  // D, not the scales beside it
      made.result_ = {.type = operands[i].type.value_or(DType::fp32), .memory = operands[i].memory};
      made.result_offset_ = made.copy_bytes_;
      made.result_bytes_ = bytes;
    }
    made.copy_bytes_ += round_up(bytes, kOperandAlign);
  }
  const double spacing = spacing_of(made.result_.type);
  made.tolerance_ = {.share = 2 * spacing + sums_share,
                     .share_of_rms = kSumsShare + sums_share,
                     .rms_share_of_rms = kSumsShare + spacing + sums_share};
  const i64 spare =
      round_up(made.result_bytes_, kOperandAlign);  // for a kept result, and for an untouched one
  const i64 copy = std::max(made.copy_bytes_, kOperandAlign);
  const double cold = kColdShare * static_cast<double>(device.info().l2_bytes);
  made.copies_ = static_cast<int>(
      std::clamp<i64>(static_cast<i64>(std::ceil(cold / static_cast<double>(copy))), 1, kMostCopies));
  if (made.copies_ > (most_bytes - 2 * spare) / copy) return too_large(most_bytes);
  made.kept_offset_ = copy * made.copies_;
  made.fresh_offset_ = made.kept_offset_ + spare;
  return made;
}

Result<void> RaceMemory::allocate(const Device& device, const Operands& operands,
                                  const StreamHandle& stream) {
  SLUICE_TAKE(memory_, DeviceBuffer::allocate(device, all_bytes()));
  Seeds seeds;
  for (int i = 0; i < operands.size(); ++i)
    if (const i64 offset = offsets_[static_cast<size_t>(i)]; offset >= 0)
      SLUICE_TRY(
          fill(memory_, {offset, span_bytes(operands[i].memory)}, seeds.of(operands[i].type), stream.get()));
  if (copy_bytes_ > 0) SLUICE_TRY(memory_.repeat(copy_bytes_, {0, copy_bytes_ * copies_}, stream.get()));
  SLUICE_TRY(memory_.copy(result_offset_, {fresh_offset_, result_bytes_}, stream.get()));
  return stream.synchronize();  // the seeds end here
}

Result<void> RaceMemory::write(int operand, std::span<const int> values, const StreamHandle& stream) const {
  const i64 bytes = static_cast<i64>(values.size_bytes());
  for (int copy = 0; copy < copies_; ++copy) {
    const i64 offset = copy * copy_bytes_ + offsets_[static_cast<size_t>(operand)];
    SLUICE_TRY(memory_.upload_async(values.data(), {offset, bytes}, stream.get()));
  }
  return stream.synchronize();
}

Pointers RaceMemory::at(int copy) const {
  Pointers pointers;
  for (size_t i = 0; i < offsets_.size(); ++i)
    if (offsets_[i] >= 0) pointers.at[i] = address(copy * copy_bytes_ + offsets_[i]);
  return pointers;
}

Result<void> RaceMemory::renew_result(Stream stream) const {
  return memory_.copy(fresh_offset_, {result_offset_, result_bytes_}, stream);
}

Result<void> RaceMemory::keep_result(Stream stream) const {
  return memory_.copy(result_offset_, {kept_offset_, result_bytes_}, stream);
}

ResultPair RaceMemory::results() const {
  ResultPair pair = result_;
  pair.first = address(kept_offset_);
  pair.second = address(result_offset_);
  return pair;
}

Result<std::vector<bool>> agreeing(const Device& device, std::span<const Racer> racers,
                                   const RaceMemory& memory, const StreamHandle& stream) {
  SLUICE_TAKE(Comparison comparison, Comparison::create(device, static_cast<int>(racers.size())));
  SLUICE_TAKE(const std::vector<bool> with_first, like(0, racers, memory, comparison, stream));
  if (2 * count_of(with_first) >= racers.size()) return with_first;
  const size_t other = static_cast<size_t>(
      std::distance(with_first.begin(), std::find(with_first.begin(), with_first.end(), false)));
  const Result<std::vector<bool>> with_other = like(other, racers, memory, comparison, stream);
  if (with_other && 2 * count_of(*with_other) > racers.size()) return *with_other;
  return with_first;
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
  // The first replay of a long kernel is slower than later ones (docs/findings/long-launches.md).
  if (rounds == kFewRounds)
    for (const auto& graph : graphs)
      if (graph) SLUICE_TRY(graph->launch(stream));
  std::vector<RaceTimes> times(racers.size());
  SLUICE_TRY(for_each_turn(graphs.size(), rounds, [&](size_t i) -> Result<void> {
    if (!graphs[i]) return {};
    SLUICE_TAKE(const double us, timer.time(stream, [&] { return graphs[i]->launch(stream); }));
    times[i].push_back(us / launches);
    return {};
  }));
  return times;
}

bool is_disturbed(const RaceTimes& times) {
  const Quantiles rounds = quantiles_of(times);
  return rounds.p90 > kSteady * rounds.median || rounds.median > kSteady * rounds.p10;
}

Result<void> check_race(int race) {
  if (race >= kUsualRace && race <= kMostRacers) return {};
  return Error{ErrorCode::invalid_argument, "race = " + std::to_string(race) + " must be in 0.." +
                                                std::to_string(kMostRacers) +
                                                ": pass 0 for no race, or -1 for what SLUICE_RACE says"};
}

RaceWish wish_to_prepare(const Device& device, int race) {
  if (race == kUsualRace) race = device.options().race;
  if (race == kUsualRace) return {.most = kUsualRacers, .asked = false};
  return {.most = race};
}

RaceWish wish_to_run(const Device& device, const Problem& problem) {
  if (device.options().race != kUsualRace) return {.most = device.options().race};
  // Only layers' calls ask the driver, and what cannot race takes no turn.
  const bool races = has_turn(problem) && most_unasked_bytes(device) > 0 && takes_turn(problem);
  return {.most = races ? kUsualRacers : 0, .asked = false};
}

i64 most_unasked_bytes(const Device& device) {
  const Device::Impl& impl = device.impl();
  if (impl.options.cache_read_only || impl.api->cuMemGetInfo == nullptr) return 0;
  const ContextScope scope(*impl.primary);
  const Result<Capture> legacy = capture_of(device, nullptr);
  size_t free_bytes = 0, all = 0;
  if (!scope.entered() || !legacy || legacy->active ||
      impl.api->cuMemGetInfo(&free_bytes, &all) != CUDA_SUCCESS)
    return 0;
  return std::min(kMostRaceBytes, static_cast<i64>(kFreeShare * static_cast<double>(free_bytes)));
}

size_t winner_of(std::span<const RaceTimes> times) {
  size_t winner = 0;
  for (size_t i = 1; i < times.size(); ++i)
    if (!times[i].empty() && is_safely_faster(quantiles_of(times[i]), quantiles_of(times[winner])))
      winner = i;
  return winner;
}

}  // namespace sluice::ops
