// SPDX-License-Identifier: Apache-2.0
// The ranges of numbers of rows that a device serves: their tables, and the kernels that keep their modules
// loaded. Ranges are added and never go. Any thread may call all of it.
#pragma once

#include <algorithm>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include <sluice/host/ops/prepared_kernels.h>
#include <sluice/rows.h>

namespace sluice {

template <class P, class Table, class Kernel>
class PreparedRows {
 public:
  struct Served {
    Table table;
    std::vector<Kernel> kernels;  // of the table's plans
  };
  using Shared = std::shared_ptr<const Served>;

  /// The first range of `form` (row_forms) that has `m`; null: none.
  Shared find(const P& form, i64 m) const {
    return find_if(form, [&](const RowRange& rows) { return rows.low <= m && m <= rows.high; });
  }
  /// That very range; null: it was not added.
  Shared find(const P& form, const RowRange& rows) const {
    return find_if(form, [&](const RowRange& known) { return known == rows; });
  }

  void add(const P& form, Served served) {
    auto shared = std::make_shared<const Served>(std::move(served));
    const std::lock_guard lock(mutex_);
    ranges_[form].push_back(std::move(shared));
  }

 private:
  template <class Wanted>
  Shared find_if(const P& form, const Wanted& wanted) const {
    const std::lock_guard lock(mutex_);
    const auto found = ranges_.find(form);
    if (found == ranges_.end()) return nullptr;
    for (const Shared& served : found->second)
      if (wanted(served->table.rows)) return served;
    return nullptr;
  }

  mutable std::mutex mutex_;
  std::unordered_map<P, std::vector<Shared>, ProblemHash> ranges_;
};

using PreparedGemmRows = PreparedRows<Problem, gemm::RowTable, gemm::Kernel>;
using PreparedPackedRows = PreparedRows<PackedProblem, packed::RowTable, packed::Kernel>;

namespace gemm {
/// The kernel of a problem that a prepared range serves: planned from its table, loaded already, so legal
/// while a stream captures. Nothing: no range has this problem, and it goes the ordinary way.
std::optional<Kernel> kernel_of_rows(const Device& device, const Problem& problem);
}  // namespace gemm

namespace packed {
std::optional<Kernel> kernel_of_rows(const Device& device, const PackedProblem& problem);
}

}  // namespace sluice
