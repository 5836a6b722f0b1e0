// SPDX-License-Identifier: Apache-2.0
// Runs many cases in one stream and reads their results once per batch. So a case costs two launches for
// verification and no wait. Cases use the same memory one after the other, in stream order. Used by the fuzz,
// real-data, thread and sanitizer tests.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include <sluice/check/verify.h>
#include <sluice/run/driver/events.h>
#include <sluice/run/driver/memory.h>

#include "random_case.h"

namespace sluice::testing {

struct Failure {
  std::string name;  // how to rerun the case on its own
  std::string problem, config, why;
};
std::string describe(const Failure& failure);

class BatchRunner {
 public:
  /// `batch`: cases that are launched before the runner waits for the GPU. `arena_bytes`: memory for the
  /// operands of the largest case.
  static Result<BatchRunner> create(const Device& device, int batch, i64 arena_bytes);

  /// Replaces the workspace by memory in which only the counters are initialised. initcheck then reports a
  /// kernel that reads a slice's partial sums before they are stored.
  Result<void> leave_parts_unwritten(const Device& device);

  /// Fills the operands, launches, and enqueues the check. May wait for earlier cases. `name` says how to run
  /// the case on its own. Error: the launch was refused.
  Result<void> run(const gemm::Kernel& kernel, const DataSpec& data, Judge judge, const std::string& name);
  /// Waits for the GPU and adds the cases that failed to failures(). Error: a fault of the device, after
  /// which results mean nothing.
  Result<void> flush();

  const std::vector<Failure>& failures() const { return failures_; }
  // Cases that were right; those that could not be judged do not count (note_not_judged).
  int passed() const { return passed_; }
  i64 elements() const { return elements_; }           // checked elements of D
  double worst_ratio() const { return worst_ratio_; }  // largest error divided by its bound
  double norm_ratio() const { return norm_ratio_; }
  double mean_ratio() const { return mean_ratio_; }

 private:
  struct Pending {
    std::string name;
    Plan plan;
  };
  BatchRunner(Verifier verifier, StreamHandle stream, std::shared_ptr<const DeviceBuffer> arena,
              Workspace workspace, int batch)
      : verifier_(std::move(verifier)),
        stream_(std::move(stream)),
        arena_(std::move(arena)),
        workspace_(std::move(workspace)),
        batch_(batch) {}

  WorkspaceView workspace() const {
    return fresh_.bytes() == 0 ? workspace_.view() : WorkspaceView{fresh_.data(), fresh_.bytes()};
  }
  Result<void> verify_workspace() const;

  Verifier verifier_;
  StreamHandle stream_;
  std::shared_ptr<const DeviceBuffer> arena_;
  Workspace workspace_;
  DeviceBuffer fresh_;  // replaces workspace_ if not empty
  int batch_;
  std::vector<Pending> pending_;
  std::vector<Failure> failures_;
  int passed_ = 0;
  i64 elements_ = 0;
  double worst_ratio_ = 0, norm_ratio_ = 0, mean_ratio_ = 0;
};

}  // namespace sluice::testing
