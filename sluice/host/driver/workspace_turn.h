// SPDX-License-Identifier: Apache-2.0
// Orders launches that share a workspace. A product may be two kernels, and the second reads what the first
// wrote; no other launch on that workspace may come between them. A launch blocks while its stream's queue is
// full, so each workspace has its own order and no process-wide lock is held meanwhile.
#pragma once

namespace sluice {

/// Reserves the workspace that begins at `workspace` for this thread while the object lives. Other threads
/// wait if they use this address. Null waits for nothing. Addresses are unique over devices. Allocates
/// nothing; costs about 25 ns uncontended.
class WorkspaceTurn {
 public:
  explicit WorkspaceTurn(const void* workspace);
  WorkspaceTurn(const WorkspaceTurn&) = delete;
  WorkspaceTurn& operator=(const WorkspaceTurn&) = delete;
  ~WorkspaceTurn();

 private:
  bool is_taken() const;

  const void* const workspace_;
  WorkspaceTurn* next_ = nullptr;  // in the list of held turns
};

}  // namespace sluice
