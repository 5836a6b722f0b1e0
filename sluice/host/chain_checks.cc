// SPDX-License-Identifier: Apache-2.0
// The one thing that dependent launches take from a caller: weights are read before the wait, so nothing in
// front may write them. Activations may be used again as in any stream, since every write is behind a wait.
#include <algorithm>

#include <sluice/host/chain.h>
#include <sluice/host/driver/error.h>

namespace sluice {
namespace {

struct Range {
  u64 begin, end;
};

/// Sorted, and joined where they meet, so that one search finds what a range touches.
class Ranges {
 public:
  void add(const StepRange& range) {
    if (range.data == nullptr || range.bytes <= 0) return;
    const u64 begin = reinterpret_cast<u64>(range.data);
    Range joined{begin, begin + static_cast<u64>(range.bytes)};
    auto first =
        std::find_if(ranges_.begin(), ranges_.end(), [&](const Range& r) { return r.end >= joined.begin; });
    auto last = first;
    for (; last != ranges_.end() && last->begin <= joined.end; ++last)
      joined = {std::min(joined.begin, last->begin), std::max(joined.end, last->end)};
    ranges_.insert(ranges_.erase(first, last), joined);
  }
  bool touches(const StepRange& range) const {
    if (range.data == nullptr || range.bytes <= 0) return false;
    const u64 begin = reinterpret_cast<u64>(range.data), end = begin + static_cast<u64>(range.bytes);
    return std::any_of(ranges_.begin(), ranges_.end(),
                       [&](const Range& r) { return r.begin < end && begin < r.end; });
  }

 private:
  std::vector<Range> ranges_;
};

}  // namespace

std::string step_name(const ChainStep& step, size_t index) {
  const std::string number = "step " + std::to_string(index);
  return step.name.empty() ? number : number + " (" + step.name + ")";
}

Result<void> check_weights_unwritten(const std::vector<PlannedStep>& steps) {
  Ranges written;        // since the last launch that began when all before it had ended
  std::string anything;  // by whom
  for (size_t i = 0; i < steps.size(); ++i) {
    const PlannedStep& s = steps[i];
    if (!s.launched) continue;
    if (s.overlap.wait == Wait::none) written = {}, anything.clear();
    if (s.overlap.wait != Wait::none && !anything.empty() && !weights_of(s.step).empty())
      return Error{ErrorCode::aliasing,
                   step_name(s.step, i) + ": its weights may be read before " + anything +
                       " has ended, which does not say what it writes: name it in ForeignStep::writes, or "
                       "give this step the overlap wait = none"};
    if (s.overlap.wait != Wait::none)  // first too: some kernels read bias, gamma or scales of weights early
      for (const StepRange& range : weights_of(s.step))
        if (written.touches(range))
          return Error{
              ErrorCode::aliasing,
              step_name(s.step, i) + ": " + range.name + " (" + hex(range.data) + " + " +
                  std::to_string(range.bytes) +
                  " bytes) is written by a step before it, and may be read before that step has ended: "
                  "give this step the overlap wait = none, or other memory"};
    for (const StepRange& range : written_by(s.step)) written.add(range);
    if (writes_anything(s.step)) anything = step_name(s.step, i);
  }
  return {};
}

}  // namespace sluice
