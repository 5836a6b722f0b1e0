// SPDX-License-Identifier: Apache-2.0
// Finds the word that was probably meant by a mistyped one. Used for verbs and flags.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace sluice::cli {

/// Returns the edit distance: the number of letters to insert, remove, replace or swap with a neighbour to
/// turn `a` into `b`.
int letters_apart(std::string_view a, std::string_view b);

/// Returns the known word with the smallest edit distance to `word`. Returns "" if more than a third of its
/// letters differ.
std::string nearest(std::string_view word, const std::vector<std::string>& known);

}  // namespace sluice::cli
