// SPDX-License-Identifier: Apache-2.0
#include <sluice/chain/tuning/outputs.h>

#include <algorithm>

#include <sluice/chain/chain.h>
#include <sluice/try.h>

namespace sluice::tuning {
namespace {

constexpr u64 kAlign = 256;
// Rounding errors of a chain's first steps grow in later ones, and a rounding to fp8 that falls the other way
// is an eighth. A step that reads too early has a whole tile of other numbers.
constexpr ops::Tolerance kTolerance{.share = 0.25, .share_of_rms = 0.5, .rms_share_of_rms = 0.125};

struct Written {
  size_t step;
  StepRange range;

  u64 begin() const { return reinterpret_cast<u64>(range.data); }
  u64 end() const { return begin() + static_cast<u64>(range.bytes); }
};

bool overlap(const Written& x, const Written& y) {
  return x.begin() < y.end() && y.begin() < x.end();
}

std::vector<Written> all_written(std::span<const ChainStep> steps) {
  std::vector<Written> all;
  for (size_t i = 0; i < steps.size(); ++i)
    for (const StepRange& range : written_by(steps[i]))
      if (range.data != nullptr && range.bytes > 0) all.push_back({i, range});
  return all;
}

}  // namespace

Result<ChainOutputs> ChainOutputs::save(const Device& device, std::span<const ChainStep> steps,
                                        const StreamHandle& stream) {
  const std::vector<Written> written = all_written(steps);
  SLUICE_TAKE(ops::Comparison comparison,
              ops::Comparison::create(device, std::max(static_cast<int>(written.size()), 1)));
  ChainOutputs made(device, std::move(comparison));
  std::vector<Written> sorted = written;
  std::sort(sorted.begin(), sorted.end(),
            [](const Written& x, const Written& y) { return x.begin() < y.begin(); });
  for (const Written& each : sorted)
    if (!made.blocks_.empty() && each.begin() < made.blocks_.back().end)
      made.blocks_.back().end = std::max(made.blocks_.back().end, each.end());
    else
      made.blocks_.push_back({each.begin(), each.end()});
  u64 bytes = 0;
  for (Block& block : made.blocks_) {
    block.place = static_cast<i64>(bytes + block.begin % kAlign);  // elements stay aligned
    bytes = (static_cast<u64>(block.place) + block.end - block.begin + kAlign - 1) / kAlign * kAlign;
  }
  SLUICE_TAKE(made.saved_, DeviceBuffer::allocate(device, static_cast<i64>(bytes)));
  SLUICE_TAKE(made.right_, DeviceBuffer::allocate(device, static_cast<i64>(bytes)));
  for (const Block& block : made.blocks_)
    SLUICE_TRY(copy_on_device(device, static_cast<u8*>(made.saved_.data()) + block.place,
                              reinterpret_cast<const void*>(block.begin),
                              static_cast<i64>(block.end - block.begin), stream.get()));
  for (auto each = written.begin(); each != written.end(); ++each) {
    if (!each->range.type) continue;
    if (std::any_of(each + 1, written.end(), [&](const Written& later) { return overlap(*each, later); }))
      continue;
    const auto block = std::find_if(made.blocks_.begin(), made.blocks_.end(), [&](const Block& b) {
      return b.begin <= each->begin() && each->end() <= b.end;
    });
    made.outputs_.push_back({.step = step_name(steps[each->step], each->step),
                             .name = each->range.name,
                             .results = {.first = static_cast<const u8*>(made.right_.data()) + block->place +
                                                  (each->begin() - block->begin),
                                         .second = each->range.data,
                                         .type = *each->range.type,
                                         .memory = each->range.memory}});
  }
  SLUICE_TRY(stream.synchronize());
  return made;
}

Result<void> ChainOutputs::restore(Stream stream) const {
  for (const Block& block : blocks_)
    SLUICE_TRY(copy_on_device(device_, reinterpret_cast<void*>(block.begin),
                              static_cast<const u8*>(saved_.data()) + block.place,
                              static_cast<i64>(block.end - block.begin), stream));
  return {};
}

Result<void> ChainOutputs::keep(Stream stream) {
  for (const Block& block : blocks_)
    SLUICE_TRY(copy_on_device(device_, static_cast<u8*>(right_.data()) + block.place,
                              reinterpret_cast<const void*>(block.begin),
                              static_cast<i64>(block.end - block.begin), stream));
  kept_ = true;
  return {};
}

Result<void> ChainOutputs::check(const StreamHandle& stream) {
  for (const Output& output : outputs_) SLUICE_TRY(comparison_.add(output.results, kTolerance, stream.get()));
  SLUICE_TAKE(const std::vector<bool> alike, comparison_.verdicts(stream));
  const auto wrong = std::find(alike.begin(), alike.end(), false);
  if (wrong == alike.end()) return {};
  const Output& output = outputs_[static_cast<size_t>(wrong - alike.begin())];
  return Error{ErrorCode::internal, output.step + ": " + output.name +
                                        " differs from that of the chain without overlap; the chain is not "
                                        "used: report this"};
}

}  // namespace sluice::tuning
