// SPDX-License-Identifier: Apache-2.0
// Workspaces that streams are lent, one each and for good: work of a stream before may be on its way, and
// graphs point there. Nobody is told when a stream is destroyed, its id never comes again, and what would
// show that its last launch is done (a wait for the context) ends the captures of other threads: so the 65th
// stream of a program is refused, however few are alive. All are as large as any plan without a limit of its
// own asks for, so that none is ever replaced under a thread that was just lent it. Any thread may call. Held
// by Device::Impl for gemm::run, and by the C interface's session.
#pragma once

#include <map>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include <sluice/gemm.h>

namespace sluice {

class WorkspaceLender {
 public:
  /// one: keeps one more in store, for a stream that captures and must not allocate.
  enum class Spare : u8 { none, one };
  static constexpr std::size_t kMaxLent = 64;  // 4 GB

  /// `bytes`: of each; tests take less.
  explicit WorkspaceLender(Spare spare, i64 bytes = kWorkspaceLimit) : spare_wanted_(spare), bytes_(bytes) {}

  struct Request {
    Stream stream = nullptr;
    bool captures = false;  // is_capturing(stream)
    i64 bytes = 0;
  };
  /// Errors: workspace (too many streams, too few bytes); not_prepared: the stream captures and none is in
  /// store; those of Workspace::create.
  Result<WorkspaceView> lend(const Device& device, const Request& request);
  /// Puts one in store if there is none.
  Result<void> store(const Device& device);

  /// Handles of the same memory: whoever waits for the device holds no lock.
  std::vector<Workspace> all_lent() const;
  struct Holdings {
    i64 lent, bytes;  // the bytes in store too
  };
  Holdings holdings() const;

 private:
  /// Who has a workspace: a stream, or the graphs captured in one.
  using Borrower = std::pair<bool, u64>;  // captures?, the stream

  static Result<Borrower> borrower(const Device& device, const Request& request);
  /// With the lock held: what a borrower has, or why it gets none; nothing where it may be lent one.
  std::optional<Result<WorkspaceView>> known(const Borrower& id, i64 bytes) const;

  const Spare spare_wanted_;
  const i64 bytes_;
  mutable std::mutex mutex_;  // never held where the driver allocates or is waited for
  std::map<Borrower, Workspace> lent_;
  std::vector<Workspace> spare_;
};

}  // namespace sluice
