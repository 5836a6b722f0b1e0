// SPDX-License-Identifier: Apache-2.0
#include <sluice/run/device/workspace_lender.h>

#include <algorithm>
#include <bit>
#include <list>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include <sluice/run/device/capture.h>
#include <sluice/run/device/device_impl.h>
#include <sluice/run/device/workspace.h>
#include <sluice/run/driver/error.h>
#include <sluice/spec/work_split.h>
#include <sluice/try.h>

namespace sluice {
namespace {

constexpr i64 kLeastSlots = i64{1} << 20;  // bytes: the smallest size of slots

/// Rounds up to one of a few sizes, so that a returned workspace often fits the next request.
i64 size_for(i64 bytes) {
  const i64 slots = std::max(bytes - kWorkspaceCounterBytes, kLeastSlots);
  return kWorkspaceCounterBytes + static_cast<i64>(std::bit_ceil(static_cast<u64>(slots)));
}

/// One stream of one capture. A capturing stream must not be asked for its id (with driver 580 that
/// invalidates the capture), but its handle is unique within the capture.
struct Branch {
  u64 capture = 0, stream = 0;

  bool operator==(const Branch&) const = default;
};
Branch branch_of(const Capture& capture, Stream stream) {
  const u64 thread =
      stream == CU_STREAM_PER_THREAD ? std::hash<std::thread::id>()(std::this_thread::get_id()) : 0;
  return {capture.id, reinterpret_cast<u64>(stream) ^ thread};
}

struct LentToGraph {
  Branch branch;
  Workspace workspace;
};

Result<u64> id_of(const Device& device, Stream stream) {
  const Device::Impl& impl = device.impl();
  const ContextScope scope(*impl.primary);
  SLUICE_TRY(scope.entered());
  unsigned long long id = 0;
  if (const CUresult code = impl.api->cuStreamGetId(stream, &id); code != CUDA_SUCCESS)
    return driver_error(*impl.api, code, "cuStreamGetId", "stream " + hex(stream));
  return u64{id};
}

}  // namespace

struct WorkspaceLender::Store {
  /// Not held during driver calls: a thread of the driver takes it to return a loan.
  mutable std::mutex mutex;
  std::map<u64, Workspace> of_streams;  // keyed by stream id: the largest workspace of each
  std::vector<Workspace> outgrown;      // smaller workspaces that streams had before
  std::list<LentToGraph> of_graphs;
  std::list<LentToGraph> idle;  // returned workspaces; their branches no longer exist
  i64 bytes_of_streams = 0;

  // Callers of these functions hold the mutex:

  std::optional<WorkspaceView> of_stream(u64 id, i64 bytes) const {
    const auto found = of_streams.find(id);
    if (found == of_streams.end() || found->second.bytes() < bytes) return {};
    return found->second.view();
  }
  std::optional<WorkspaceView> of_branch(const Branch& branch, i64 bytes) const {
    for (const LentToGraph& lent : of_graphs)
      if (lent.branch == branch && lent.workspace.bytes() >= bytes) return lent.workspace.view();
    return {};
  }
  void lend_to_stream(u64 id, const Workspace& workspace) {
    bytes_of_streams += workspace.bytes();
    const auto [entry, is_new] = of_streams.emplace(id, workspace);
    if (is_new) return;
    outgrown.push_back(entry->second);
    entry->second = workspace;
  }

  // These functions lock the mutex themselves:

  /// Takes the smallest returned workspace that is large enough.
  std::optional<Workspace> take_idle(i64 bytes) {
    const std::lock_guard lock(mutex);
    auto best = idle.end();
    for (auto it = idle.begin(); it != idle.end(); ++it)
      if (it->workspace.bytes() >= bytes &&
          (best == idle.end() || it->workspace.bytes() < best->workspace.bytes()))
        best = it;
    if (best == idle.end()) return {};
    Workspace found = best->workspace;
    idle.erase(best);
    return found;
  }
  void put_idle(const Workspace& workspace) {
    const std::lock_guard lock(mutex);
    idle.push_back({.branch = {}, .workspace = workspace});
  }
  /// Returns a workspace for a graph: a returned one or a new one, zeroed.
  Result<Workspace> take(const Device& device, i64 bytes) {
    const std::optional<Workspace> back = take_idle(bytes);
    if (!back) return Workspace::create(device, size_for(bytes));
    // A graph that was aborted, or replayed twice at once, leaves nonzero counters.
    const Result<void> zeroed = zero_now(device, *back);
    if (zeroed) return *back;
    put_idle(*back);
    return zeroed.error();
  }
};

namespace {

using Store = WorkspaceLender::Store;

/// The data of a graph's user object.
struct Loan {
  std::shared_ptr<Store> store;
  std::list<LentToGraph>::iterator lent;
};
/// Called by the driver on a thread that must not call the driver, so it frees no memory.
void give_back(void* pointer) {
  const std::unique_ptr<Loan> loan(static_cast<Loan*>(pointer));
  const std::lock_guard lock(loan->store->mutex);
  loan->store->idle.splice(loan->store->idle.end(), loan->store->of_graphs, loan->lent);
}

/// Makes the graph own the loan, so that it ends with the graph. On failure the loan is returned at once.
Result<void> tie(const DriverApi& api, CUgraph graph, std::unique_ptr<Loan> loan) {
  CUuserObject object = nullptr;
  CUresult code =
      api.cuUserObjectCreate(&object, loan.get(), give_back, 1, CU_USER_OBJECT_NO_DESTRUCTOR_SYNC);
  Loan* const tied = loan.release();
  if (code != CUDA_SUCCESS) {
    give_back(tied);
    return driver_error(api, code, "cuUserObjectCreate", "a graph's workspace");
  }
  code = api.cuGraphRetainUserObject(graph, object, 1, CU_GRAPH_USER_OBJECT_MOVE);
  if (code == CUDA_SUCCESS) return {};
  api.cuUserObjectRelease(object, 1);
  return driver_error(api, code, "cuGraphRetainUserObject", "a graph's workspace");
}

Result<WorkspaceView> lend_to_graph(const Device& device, const std::shared_ptr<Store>& store,
                                    const Branch& branch, CUgraph graph, i64 bytes) {
  SLUICE_TAKE(Workspace workspace, store->take(device, bytes));
  auto loan = std::make_unique<Loan>(Loan{store, {}});
  {
    const std::lock_guard lock(store->mutex);
    loan->lent = store->of_graphs.insert(store->of_graphs.end(), {branch, workspace});
  }
  const ContextScope scope(*device.impl().primary);
  if (const Result<void> entered = scope.entered(); !entered) {
    give_back(loan.release());
    return entered.error();
  }
  SLUICE_TRY(tie(*device.impl().api, graph, std::move(loan)));
  return workspace.view();
}

/// Stores of destroyed lenders whose workspaces graphs still use.
struct Abandoned {
  std::mutex mutex;
  std::vector<std::shared_ptr<Store>> stores;
};
/// Never destroyed, because graphs may be destroyed while the process exits.
Abandoned& abandoned() {
  static auto* const all = new Abandoned;
  return *all;
}

void free_what_came_back() {
  std::list<LentToGraph> freed;  // declared before the locks, so that it is freed after they are released
  std::vector<std::shared_ptr<Store>> done;
  const std::lock_guard lock(abandoned().mutex);
  std::erase_if(abandoned().stores, [&](const std::shared_ptr<Store>& store) {
    const std::lock_guard store_lock(store->mutex);
    freed.splice(freed.end(), store->idle);
    if (!store->of_graphs.empty()) return false;
    done.push_back(store);
    return true;
  });
}

}  // namespace

WorkspaceLender::WorkspaceLender(i64 most_of_streams)
    : most_of_streams_(most_of_streams), store_(std::make_shared<Store>()) {
  free_what_came_back();
}

WorkspaceLender::~WorkspaceLender() {
  std::map<u64, Workspace>
      of_streams;  // freed here: the store's last owner may be the driver's thread, which must not free it
  std::vector<Workspace> outgrown;
  {
    const std::lock_guard lock(store_->mutex);
    of_streams.swap(store_->of_streams);
    outgrown.swap(store_->outgrown);
  }
  {
    const std::lock_guard lock(abandoned().mutex);
    abandoned().stores.push_back(store_);
  }
  free_what_came_back();
}

Result<WorkspaceView> WorkspaceLender::lend(const Device& device, Stream stream, i64 bytes) {
  SLUICE_TAKE(const Capture capture, capture_of(device, stream));
  if (capture.active) {
    const Branch branch = branch_of(capture, stream);
    {
      const std::lock_guard lock(store_->mutex);
      if (const auto has = store_->of_branch(branch, bytes)) return *has;
    }
    return lend_to_graph(device, store_, branch, capture.graph, bytes);
  }
  SLUICE_TAKE(const u64 id, id_of(device, stream));
  {
    const std::lock_guard lock(store_->mutex);
    if (const auto has = store_->of_stream(id, bytes)) return *has;
    if (store_->bytes_of_streams + size_for(bytes) > most_of_streams_)
      return Error{ErrorCode::workspace,
                   "the streams of this process were lent " + std::to_string(store_->bytes_of_streams) +
                       " bytes of workspace, each for good, and may have " +
                       std::to_string(most_of_streams_) +
                       ": keep streams and use them again, since one made in place of another counts anew, "
                       "or pass a workspace of your own"};
  }
  SLUICE_TAKE(const Workspace made, store_->take(device, bytes));
  const std::lock_guard lock(store_->mutex);
  // Another thread may have lent this stream a workspace in the meantime.
  if (const auto has = store_->of_stream(id, bytes)) {
    store_->idle.push_back({.branch = {}, .workspace = made});
    return *has;
  }
  store_->lend_to_stream(id, made);
  return made.view();
}

std::vector<Workspace> WorkspaceLender::all_lent() const {
  const std::lock_guard lock(store_->mutex);
  std::vector<Workspace> workspaces = store_->outgrown;
  for (const auto& [id, workspace] : store_->of_streams) workspaces.push_back(workspace);
  for (const LentToGraph& lent : store_->of_graphs) workspaces.push_back(lent.workspace);
  return workspaces;
}

WorkspaceLender::Holdings WorkspaceLender::holdings() const {
  const std::lock_guard lock(store_->mutex);
  i64 bytes = store_->bytes_of_streams;
  for (const auto* lent : {&store_->of_graphs, &store_->idle})
    for (const LentToGraph& each : *lent) bytes += each.workspace.bytes();
  return {static_cast<i64>(store_->of_streams.size() + store_->of_graphs.size()), bytes};
}

}  // namespace sluice
