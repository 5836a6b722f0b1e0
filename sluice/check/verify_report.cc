// SPDX-License-Identifier: Apache-2.0
// Prints a Comparison so that a bug can be located: counts, the box around wrong elements (often a tile), and
// example values.
#include <cstdio>

#include <sluice/check/verify.h>

namespace sluice {
namespace {

template <class... Values>
std::string format(const char* pattern, Values... values) {
  char text[256];
  std::snprintf(text, sizeof text, pattern, values...);
  return text;
}

std::string describe(const LoggedElement& e) {
  return format("\n  batch %lld row %lld column %lld: expected %.9g, got %.9g (bound %.3g)", e.batch, e.row,
                e.column, e.expected, e.got, e.bound);
}

}  // namespace

std::string describe(const Comparison& found) {
  std::string text = format("%lld elements checked, %lld wrong", found.checked, found.wrong);
  if (found.worst_ratio > 0) text += format(", largest error %.3f of the bound", found.worst_ratio);
  if (found.norm_ratio > 0)
    text += format(", all together %.3f and their mean %.3f of what they may be", found.norm_ratio,
                   found.mean_ratio);
  if (found.mean_error != 0) text += format(", mean error %.2e of sum|ab|", found.mean_error);
  if (found.norm_ratio > 1)
    text += format("\n  all errors together are %.3g times what they may be (root of the sum of squares)",
                   found.norm_ratio);
  if (found.mean_ratio > 1)
    text += format("\n  errors have one sign too often: their mean is %.3g times what it may be",
                   found.mean_ratio);
  if (found.wrong > 0)
    text += format("\n  %lld of them never written; all in rows %lld..%lld, columns %lld..%lld",
                   found.unwritten, found.row_low, found.row_high, found.column_low, found.column_high);
  for (const LoggedElement& element : found.examples) text += describe(element);
  if (found.damaged_chunks > 0)
    text += format(
        "\n  %lld 16-byte pieces changed outside of D (guard zones, padding or inputs), lowest at 0x%llx",
        found.damaged_chunks, found.damage_address);
  if (found.inexact_inputs > 0)
    text += format(
        "\n  %lld elements not judged: their data are too large to be exact, which is the test's fault",
        found.inexact_inputs);
  return text;
}

}  // namespace sluice
