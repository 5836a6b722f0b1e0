// SPDX-License-Identifier: Apache-2.0
// The order of launches that use one workspace. A product may be two kernels, of which the second reads what
// the first left there; another thread's launch on that workspace must not come between them. A launch may
// block for as long as its stream's queue is full, so the order is each workspace's own, and no lock of the
// process is held meanwhile.
#pragma once

namespace sluice {

/// While it lives, it is the turn of its thread on the workspace that begins at `workspace`; others of the
/// same address wait, those of other addresses do not. Null: nothing is waited for. Addresses are unique over
/// devices. Allocates nothing; costs about 25 ns where nobody waits.
class WorkspaceTurn {
 public:
  explicit WorkspaceTurn(const void* workspace);
  WorkspaceTurn(const WorkspaceTurn&) = delete;
  WorkspaceTurn& operator=(const WorkspaceTurn&) = delete;
  ~WorkspaceTurn();

 private:
  bool is_taken() const;

  const void* const workspace_;
  WorkspaceTurn* next_ = nullptr;  // in the list of the turns that are held
};

}  // namespace sluice
