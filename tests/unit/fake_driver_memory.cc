// SPDX-License-Identifier: Apache-2.0
// The fake driver's memory, streams, events and graphs.
#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <thread>

#include "fake_driver_state.h"

namespace sluice::fake {
namespace {

constexpr std::size_t kMostCaptured = 4096;  // upper limit of kernels in one graph

CUresult pointer_attributes(unsigned count, CUpointer_attribute* which, void** values, CUdeviceptr pointer) {
  const Call call("cuPointerGetAttributes");
  if (call.code != CUDA_SUCCESS) return call.code;
  if (current() == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  auto block = state->blocks.upper_bound(pointer);
  const bool known = block != state->blocks.begin() && (--block, true) &&
                     pointer < block->first + static_cast<u64>(block->second.bytes) &&
                     block->second.kind != 0;
  for (unsigned i = 0; i < count; ++i) {
    int value = 0;
    if (which[i] == CU_POINTER_ATTRIBUTE_MEMORY_TYPE && known) value = static_cast<int>(block->second.kind);
    if (which[i] == CU_POINTER_ATTRIBUTE_IS_MANAGED)
      value = known && block->second.kind == CU_MEMORYTYPE_UNIFIED;
    if (which[i] == CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL) value = known ? block->second.ordinal : -2;
    std::memcpy(values[i], &value, sizeof value);
  }
  return CUDA_SUCCESS;
}

CUresult allocate(CUdeviceptr* address, std::size_t bytes) {
  const Call call("cuMemAlloc");
  if (call.code != CUDA_SUCCESS) return call.code;
  if (current() == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  if (const CUresult refused = unsafe_call(); refused != CUDA_SUCCESS) return refused;
  const i64 size = static_cast<i64>(bytes);
  if (size == 0) return CUDA_ERROR_INVALID_VALUE;
  if (size > state->driver->machine.memory_bytes) return CUDA_ERROR_OUT_OF_MEMORY;
  *address = add_block(size, {size, current_ordinal(), CU_MEMORYTYPE_DEVICE});
  ++state->alive.allocations;
  return CUDA_SUCCESS;
}

/// All memory counts as free.
CUresult memory_info(std::size_t* free, std::size_t* all) {
  const Call call("cuMemGetInfo");
  if (call.code != CUDA_SUCCESS) return call.code;
  if (current() == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  *free = *all = static_cast<std::size_t>(state->driver->machine.memory_bytes);
  return CUDA_SUCCESS;
}

CUresult release(CUdeviceptr address) {
  const Call call("cuMemFree");
  const CUresult allowed = unsafe_call();
  if (state->blocks.erase(address) != 1) return CUDA_ERROR_INVALID_VALUE;
  std::free(reinterpret_cast<void*>(address));
  --state->alive.allocations;
  return allowed != CUDA_SUCCESS ? allowed : call.code;
}

/// Whether a copy uses pageable host memory. Such a copy is staged and may block, so it is unsafe during a
/// capture.
enum class Pageable { no, yes };

CUresult copy(const char* name, void* target, const void* source, std::size_t bytes, CUstream stream,
              Pageable pageable) {
  const Call call(name);
  if (call.code != CUDA_SUCCESS) return call.code;
  if (pageable == Pageable::yes)
    if (const CUresult refused = unsafe_call(); refused != CUDA_SUCCESS) return refused;
  if (const CUresult refused = use_of(stream); refused != CUDA_SUCCESS) return refused;
  std::memcpy(target, source, bytes);
  return call.code;
}
CUresult set(const char* name, CUdeviceptr target, unsigned char value, std::size_t bytes, CUstream stream) {
  const Call call(name);
  if (call.code != CUDA_SUCCESS) return call.code;
  if (const CUresult refused = use_of(stream); refused != CUDA_SUCCESS) return refused;
  auto* fake = stream == nullptr || stream == CU_STREAM_LEGACY || stream == CU_STREAM_PER_THREAD
                   ? nullptr
                   : reinterpret_cast<FakeStream*>(stream);
  if (fake != nullptr && fake->captured != nullptr)
    fake->captured->nodes.push_back({CU_GRAPH_NODE_TYPE_MEMSET, nullptr, false});
  std::memset(reinterpret_cast<void*>(target), value, bytes);
  return call.code;
}

/// Makes a handle, which is the address of a heap object.
template <class Handle>
CUresult give(const Call& call, Handle* handle, int& count) {
  if (current() == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  if (call.code != CUDA_SUCCESS) return call.code;
  *handle = reinterpret_cast<Handle>(new int(0));
  ++count;
  return CUDA_SUCCESS;
}
template <class Handle>
CUresult take(const Call& call, Handle handle, int& count) {
  delete reinterpret_cast<int*>(handle);
  --count;
  return call.code;
}

bool is_legacy(CUstream stream) {
  return stream == nullptr || stream == CU_STREAM_LEGACY;
}
/// Checks a query of the legacy stream. During a capture it fails, but does not end the capture.
bool asks_legacy_in_capture(CUstream stream) {
  return is_legacy(stream) &&
         std::any_of(state->streams.begin(), state->streams.end(),
                     [](FakeStream* other) { return other->captured != nullptr && other->blocking; });
}

CUresult begin_capture(CUstream stream, CUstreamCaptureMode mode) {
  const Call call("cuStreamBeginCapture");
  if (call.code != CUDA_SUCCESS) return call.code;
  static std::atomic<u64> last_id{0};
  auto& fake = *reinterpret_cast<FakeStream*>(stream);
  fake.captured = new FakeGraph;
  fake.captured->nodes.reserve(kMostCaptured);  // now, because a launch must not allocate
  fake.captured->mode = mode;
  fake.captured->thread = std::this_thread::get_id();
  fake.capture_id = ++last_id;
  ++state->capturing;
  ++state->alive.graphs;
  return CUDA_SUCCESS;
}

/// Destroys objects on a thread that must not call the driver, as the driver's own thread does. Holds no
/// lock.
void destroy(std::vector<FakeUserObject*> objects) {
  if (objects.empty()) return;
  std::thread([&] {
    destroys_user_object = true;
    for (FakeUserObject* object : objects) {
      object->destroy(object->pointer);
      delete object;
    }
  }).join();
}

/// Drops one reference of each object. Returns the objects that have none left; they no longer count as
/// alive.
std::vector<FakeUserObject*> release_objects(const std::vector<FakeUserObject*>& objects) {
  std::vector<FakeUserObject*> gone;
  for (FakeUserObject* object : objects)
    if (--object->references == 0) gone.push_back(object);
  state->alive.user_objects -= static_cast<int>(gone.size());
  return gone;
}

CUresult destroy_graph(const char* name, FakeGraph* graph, int& count) {
  std::vector<FakeUserObject*> gone;
  CUresult code = CUDA_SUCCESS;
  {
    const Call call(name);
    code = call.code;
    gone = release_objects(graph->objects);
    delete graph;
    --count;
  }
  destroy(std::move(gone));
  return code;
}

/// Ends a capture, its branches included.
CUresult end_capture(CUstream stream, CUgraph* graph) {
  *graph = nullptr;
  FakeGraph* captured = nullptr;
  CUresult code = CUDA_SUCCESS;
  {
    const Call call("cuStreamEndCapture");
    code = call.code;
    captured = reinterpret_cast<FakeStream*>(stream)->captured;
    if (captured == nullptr) return code;
    for (FakeStream* each : state->streams)
      if (each->captured == captured) {
        each->captured = nullptr;
        --state->capturing;
      }
    if (code == CUDA_SUCCESS && captured->lost) code = CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    if (code == CUDA_SUCCESS) *graph = reinterpret_cast<CUgraph>(captured);
  }
  if (code != CUDA_SUCCESS) destroy_graph("a capture that failed", captured, state->alive.graphs);
  return code;
}

CUresult capture_info(CUstream stream, CUstreamCaptureStatus* status, cuuint64_t* id, CUgraph* graph,
                      const CUgraphNode**, const CUgraphEdgeData**, std::size_t*) {
  const Call call("cuStreamGetCaptureInfo");
  if (asks_legacy_in_capture(stream)) return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
  const auto* fake = reinterpret_cast<const FakeStream*>(stream);
  const bool capturing = fake != nullptr && fake->captured != nullptr;
  *status = capturing ? CU_STREAM_CAPTURE_STATUS_ACTIVE : CU_STREAM_CAPTURE_STATUS_NONE;
  if (capturing && (state->loses_captures || fake->captured->lost))
    *status = CU_STREAM_CAPTURE_STATUS_INVALIDATED;
  if (*status != CU_STREAM_CAPTURE_STATUS_ACTIVE) return call.code;
  *id = fake->capture_id;
  *graph = reinterpret_cast<CUgraph>(fake->captured);
  return call.code;
}

CUresult instantiate(CUgraphExec* executable, CUgraph graph, unsigned long long) {
  const Call call("cuGraphInstantiate");
  if (call.code != CUDA_SUCCESS) return call.code;
  auto* made = new FakeGraph(*reinterpret_cast<const FakeGraph*>(graph));
  for (FakeUserObject* object : made->objects) ++object->references;
  *executable = reinterpret_cast<CUgraphExec>(made);
  ++state->alive.executables;
  return CUDA_SUCCESS;
}

CUresult create_object(CUuserObject* object, void* pointer, CUhostFn function, unsigned references,
                       unsigned flags) {
  const Call call("cuUserObjectCreate");
  if (call.code != CUDA_SUCCESS) return call.code;
  if (flags != CU_USER_OBJECT_NO_DESTRUCTOR_SYNC) return CUDA_ERROR_INVALID_VALUE;
  *object = reinterpret_cast<CUuserObject>(new FakeUserObject{pointer, function, references});
  ++state->alive.user_objects;
  return CUDA_SUCCESS;
}

CUresult release_object(CUuserObject object, unsigned) {
  std::vector<FakeUserObject*> gone;
  CUresult code = CUDA_SUCCESS;
  {
    const Call call("cuUserObjectRelease");
    code = call.code;
    gone = release_objects({reinterpret_cast<FakeUserObject*>(object)});
  }
  destroy(std::move(gone));
  return code;
}

CUresult retain_object(CUgraph graph, CUuserObject object, unsigned, unsigned flags) {
  const Call call("cuGraphRetainUserObject");
  if (call.code != CUDA_SUCCESS) return call.code;
  auto* held = reinterpret_cast<FakeUserObject*>(object);
  if (flags != CU_GRAPH_USER_OBJECT_MOVE) ++held->references;
  reinterpret_cast<FakeGraph*>(graph)->objects.push_back(held);
  return CUDA_SUCCESS;
}

/// Writes as many edges as there is room for and returns their number, as the driver does.
CUresult edges_of(CUgraph graph, CUgraphNode* from, CUgraphNode* to, CUgraphEdgeData* data,
                  std::size_t* count) {
  const Call call("cuGraphGetEdges");
  if (call.code != CUDA_SUCCESS) return call.code;
  std::vector<FakeNode>& nodes = reinterpret_cast<FakeGraph*>(graph)->nodes;
  const std::size_t edges = nodes.empty() ? 0 : nodes.size() - 1;
  *count = std::min(*count, edges);
  for (std::size_t i = 0; i < *count; ++i) {
    const bool programmatic = nodes[i + 1].programmatic && !state->full_edges;
    if (programmatic && data == nullptr) return CUDA_ERROR_LOSSY_QUERY;
    from[i] = reinterpret_cast<CUgraphNode>(&nodes[i]);
    to[i] = reinterpret_cast<CUgraphNode>(&nodes[i + 1]);
    if (data == nullptr) continue;
    data[i] = {};
    data[i].type = static_cast<unsigned char>(programmatic ? CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC
                                                           : CU_GRAPH_DEPENDENCY_TYPE_DEFAULT);
  }
  return CUDA_SUCCESS;
}

}  // namespace

CUresult unsafe_call() {
  bool forbidden = false;
  for (FakeStream* stream : state->streams) {
    if (stream->captured == nullptr || capture_mode == CU_STREAM_CAPTURE_MODE_RELAXED) continue;
    FakeGraph& capture = *stream->captured;
    const bool concerned =
        capture.thread == std::this_thread::get_id()
            ? capture.mode != CU_STREAM_CAPTURE_MODE_RELAXED
            : capture.mode == CU_STREAM_CAPTURE_MODE_GLOBAL && capture_mode == CU_STREAM_CAPTURE_MODE_GLOBAL;
    if (concerned) forbidden = capture.lost = true;
  }
  return forbidden ? CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED : CUDA_SUCCESS;
}

CUresult use_of(CUstream stream) {
  if (!is_legacy(stream)) {
    const FakeGraph* captured = reinterpret_cast<const FakeStream*>(stream)->captured;
    return captured != nullptr && captured->lost ? CUDA_ERROR_STREAM_CAPTURE_INVALIDATED : CUDA_SUCCESS;
  }
  if (!asks_legacy_in_capture(stream)) return CUDA_SUCCESS;
  for (FakeStream* other : state->streams)
    if (other->captured != nullptr && other->blocking) other->captured->lost = true;
  return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
}

u64 add_block(i64 bytes, const Block& block) {
  // Unused bytes after each allocation, so that a test which makes two operands overlap cannot hit a third.
  constexpr i64 kGap = 64 << 10;
  void* memory = std::aligned_alloc(256, static_cast<std::size_t>((bytes + kGap + 255) / 256 * 256));
  std::memset(memory, 0xA5, static_cast<std::size_t>(bytes));  // fresh device memory is not zero
  state->blocks.emplace(reinterpret_cast<u64>(memory), block);
  return reinterpret_cast<u64>(memory);
}

void fill_memory(DriverApi& api) {
  api.cuPointerGetAttributes = pointer_attributes;
  api.cuMemAlloc = allocate;
  api.cuMemFree = release;
  api.cuMemGetInfo = memory_info;
  api.cuMemsetD8Async = [](CUdeviceptr target, unsigned char value, std::size_t bytes, CUstream stream) {
    return set("cuMemsetD8Async", target, value, bytes, stream);
  };
  api.cuMemcpyHtoD = [](CUdeviceptr target, const void* source, std::size_t bytes) {
    return copy("cuMemcpyHtoD", reinterpret_cast<void*>(target), source, bytes, nullptr, Pageable::yes);
  };
  api.cuMemcpyDtoH = [](void* target, CUdeviceptr source, std::size_t bytes) {
    return copy("cuMemcpyDtoH", target, reinterpret_cast<const void*>(source), bytes, nullptr, Pageable::yes);
  };
  api.cuMemcpyDtoDAsync = [](CUdeviceptr target, CUdeviceptr source, std::size_t bytes, CUstream stream) {
    return copy("cuMemcpyDtoDAsync", reinterpret_cast<void*>(target), reinterpret_cast<const void*>(source),
                bytes, stream, Pageable::no);
  };
  api.cuMemcpyDtoHAsync = [](void* target, CUdeviceptr source, std::size_t bytes, CUstream stream) {
    return copy("cuMemcpyDtoHAsync", target, reinterpret_cast<const void*>(source), bytes, stream,
                Pageable::yes);
  };
  api.cuMemcpyHtoDAsync = [](CUdeviceptr target, const void* source, std::size_t bytes, CUstream stream) {
    return copy("cuMemcpyHtoDAsync", reinterpret_cast<void*>(target), source, bytes, stream, Pageable::yes);
  };
}
void fill_streams(DriverApi& api) {
  api.cuStreamCreate = [](CUstream* stream, unsigned flags) {
    const Call call("cuStreamCreate");
    if (call.code != CUDA_SUCCESS) return call.code;
    static std::atomic<u64> last_id{0};
    auto* made = new FakeStream{current_ordinal(), ++last_id, (flags & CU_STREAM_NON_BLOCKING) == 0};
    *stream = reinterpret_cast<CUstream>(made);
    state->streams.insert(made);
    ++state->alive.streams;
    return CUDA_SUCCESS;
  };
  api.cuStreamDestroy = [](CUstream stream) {
    const Call call("cuStreamDestroy");
    state->streams.erase(reinterpret_cast<FakeStream*>(stream));
    delete reinterpret_cast<FakeStream*>(stream);
    --state->alive.streams;
    return call.code;
  };
  api.cuStreamSynchronize = [](CUstream stream) {
    const Call call("cuStreamSynchronize");
    if (!is_legacy(stream) && reinterpret_cast<FakeStream*>(stream)->captured != nullptr) {
      reinterpret_cast<FakeStream*>(stream)->captured->lost = true;
      return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    }
    if (const CUresult refused = unsafe_call(); refused != CUDA_SUCCESS) return refused;
    const CUresult refused = use_of(stream);
    return refused != CUDA_SUCCESS ? refused : call.code;
  };
  api.cuStreamIsCapturing = [](CUstream stream, CUstreamCaptureStatus* status) {
    const Call call("cuStreamIsCapturing");
    if (asks_legacy_in_capture(stream)) return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
    const bool capturing = stream != nullptr && reinterpret_cast<FakeStream*>(stream)->captured != nullptr;
    *status = capturing ? CU_STREAM_CAPTURE_STATUS_ACTIVE : CU_STREAM_CAPTURE_STATUS_NONE;
    return call.code;
  };
  api.cuStreamGetId = [](CUstream stream, unsigned long long* id) {
    const Call call("cuStreamGetId");
    if (stream != nullptr && reinterpret_cast<FakeStream*>(stream)->captured != nullptr)
      return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;  // as driver 580 does
    *id = stream == nullptr ? 0 : reinterpret_cast<FakeStream*>(stream)->id;
    return call.code;
  };
  api.cuStreamBeginCapture = begin_capture;
  api.cuStreamEndCapture = end_capture;
  api.cuStreamGetCaptureInfo = capture_info;
  api.cuThreadExchangeStreamCaptureMode = [](CUstreamCaptureMode* mode) {
    const Call call("cuThreadExchangeStreamCaptureMode");
    if (call.code == CUDA_SUCCESS) std::swap(*mode, capture_mode);
    return call.code;
  };
  api.cuUserObjectCreate = create_object;
  api.cuUserObjectRelease = release_object;
  api.cuGraphRetainUserObject = retain_object;
  api.cuGraphInstantiate = instantiate;
  api.cuGraphUpload = [](CUgraphExec, CUstream stream) {
    const Call call("cuGraphUpload");
    const CUresult refused = use_of(stream);
    return refused != CUDA_SUCCESS ? refused : call.code;
  };
  api.cuGraphLaunch = [](CUgraphExec executable, CUstream stream) {
    const Call call("cuGraphLaunch");
    if (const CUresult refused = use_of(stream); refused != CUDA_SUCCESS) return refused;
    for (const u64 address : reinterpret_cast<const FakeGraph*>(executable)->wrong_writes)
      write_wrong(address);
    const std::vector<FakeNode>& kernels = reinterpret_cast<const FakeGraph*>(executable)->nodes;
    state->early = static_cast<int>(std::count_if(kernels.begin(), kernels.end(),
                                                  [](const FakeNode& node) { return node.programmatic; }));
    state->replayed_smem = reinterpret_cast<const FakeGraph*>(executable)->first_smem;
    return call.code;
  };
  api.cuGraphDestroy = [](CUgraph graph) {
    return destroy_graph("cuGraphDestroy", reinterpret_cast<FakeGraph*>(graph), state->alive.graphs);
  };
  api.cuGraphGetNodes = [](CUgraph graph, CUgraphNode* nodes, std::size_t* count) {
    const Call call("cuGraphGetNodes");
    std::vector<FakeNode>& all = reinterpret_cast<FakeGraph*>(graph)->nodes;
    for (std::size_t i = 0; nodes != nullptr && i < std::min(*count, all.size()); ++i)
      nodes[i] = reinterpret_cast<CUgraphNode>(&all[i]);
    *count = nodes == nullptr ? all.size() : std::min(*count, all.size());
    return call.code;
  };
  api.cuGraphNodeGetType = [](CUgraphNode node, CUgraphNodeType* type) {
    *type = reinterpret_cast<const FakeNode*>(node)->type;
    return Call("cuGraphNodeGetType").code;
  };
  api.cuGraphKernelNodeGetParams = [](CUgraphNode node, CUDA_KERNEL_NODE_PARAMS* params) {
    params->func = reinterpret_cast<const FakeNode*>(node)->function;
    return Call("cuGraphKernelNodeGetParams").code;
  };
  api.cuGraphGetEdges = edges_of;
  api.cuGraphExecDestroy = [](CUgraphExec executable) {
    return destroy_graph("cuGraphExecDestroy", reinterpret_cast<FakeGraph*>(executable),
                         state->alive.executables);
  };
  api.cuEventCreate = [](CUevent* event, unsigned) {
    return give(Call("cuEventCreate"), event, state->alive.events);
  };
  api.cuEventDestroy = [](CUevent event) { return take(Call("cuEventDestroy"), event, state->alive.events); };
  api.cuEventRecord = [](CUevent, CUstream stream) {
    const Call call("cuEventRecord");
    const CUresult refused = use_of(stream);
    return refused != CUDA_SUCCESS ? refused : call.code;
  };
  api.cuEventSynchronize = [](CUevent) {
    const Call call("cuEventSynchronize");
    const CUresult refused = unsafe_call();
    return refused != CUDA_SUCCESS ? refused : call.code;
  };
  api.cuEventElapsedTime = [](float* milliseconds, CUevent, CUevent) {
    const Call call("cuEventElapsedTime");
    const float gained = state->replayed_smem == state->fast_smem ? 0.1f : 0.0f;
    *milliseconds =
        0.25f - gained - state->gain_ms * static_cast<float>(std::min(state->early, state->most_gaining));
    state->noise_state = state->noise_state * 6364136223846793005 + 1442695040888963407;
    const double share = 2 * static_cast<double>(state->noise_state >> 33) / (u64{1} << 31) - 1;
    *milliseconds *= static_cast<float>(1 + state->noise * share);
    return call.code;
  };
}

}  // namespace sluice::fake
