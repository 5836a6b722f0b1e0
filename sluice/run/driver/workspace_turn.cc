// SPDX-License-Identifier: Apache-2.0
// Keeps a list of held turns. Each entry is on the stack of a launching thread. The mutex guards only the
// list: it is not held during driver calls.
#include <sluice/run/driver/workspace_turn.h>

#include <condition_variable>
#include <cstddef>
#include <mutex>
#include <new>

namespace sluice {
namespace {

struct Turns {
  std::mutex mutex;
  std::condition_variable given_back;
  WorkspaceTurn* held = nullptr;
  int waiting = 0;
};

/// Never destroyed, because threads may launch while the process exits. Constructed in static memory, so that
/// no launch allocates.
Turns& turns() {
  alignas(Turns) static std::byte memory[sizeof(Turns)];
  static auto* const all = new (memory) Turns;
  return *all;
}

}  // namespace

bool WorkspaceTurn::is_taken() const {
  for (const WorkspaceTurn* turn = turns().held; turn != nullptr; turn = turn->next_)
    if (turn->workspace_ == workspace_) return true;
  return false;
}

WorkspaceTurn::WorkspaceTurn(const void* workspace) : workspace_(workspace) {
  if (workspace_ == nullptr) return;
  Turns& all = turns();
  std::unique_lock lock(all.mutex);
  while (is_taken()) {
    ++all.waiting;
    all.given_back.wait(lock);
    --all.waiting;
  }
  next_ = all.held;
  all.held = this;
}

WorkspaceTurn::~WorkspaceTurn() {
  if (workspace_ == nullptr) return;
  Turns& all = turns();
  const std::lock_guard lock(all.mutex);
  WorkspaceTurn** link = &all.held;
  while (*link != this) link = &(*link)->next_;
  *link = next_;
  if (all.waiting > 0) all.given_back.notify_all();
}

}  // namespace sluice
