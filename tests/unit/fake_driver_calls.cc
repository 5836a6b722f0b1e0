// SPDX-License-Identifier: Apache-2.0
// The fake driver's devices, contexts, modules, tensor maps and launches.
#include "fake_driver_state.h"

#include <algorithm>
#include <cstdio>

#include <sluice/kernels/compare_params.h>
#include <sluice/spec/locate.h>

namespace sluice::fake {
namespace {

CUresult device_attribute(int* value, CUdevice_attribute which, CUdevice) {
  const Call call("cuDeviceGetAttribute");
  const FakeDriver::Machine& machine = state->driver->machine;
  switch (which) {
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR: *value = machine.compute_major; break;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR: *value = machine.compute_minor; break;
    case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT: *value = machine.sm_count; break;
    case CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE: *value = machine.l2_bytes; break;
    case CU_DEVICE_ATTRIBUTE_CLOCK_RATE: *value = machine.max_sm_khz; break;
    case CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE: *value = machine.memory_khz; break;
    case CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH: *value = machine.bus_bits; break;
    default: return CUDA_ERROR_INVALID_VALUE;
  }
  return call.code;
}

/// Refuses the query unless it is for one CTA per SM.
CUresult active_clusters(int* count, CUfunction function, const CUlaunchConfig* config) {
  const Call call("cuOccupancyMaxActiveClusters");
  const FakeDriver::Machine& machine = state->driver->machine;
  if (!machine.has_occupancy) return CUDA_ERROR_NOT_SUPPORTED;
  const auto& module = *reinterpret_cast<FakeModule*>(function);
  const bool legal = current() != nullptr && config->numAttrs == 1 &&
                     config->attrs[0].id == CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION &&
                     static_cast<int>(config->sharedMemBytes) <= module.max_smem &&
                     config->sharedMemBytes > 114 * 1024 && config->blockDimX >= 1;
  if (!legal) return CUDA_ERROR_INVALID_VALUE;
  const u32 ctas = config->attrs[0].value.clusterDim.x;
  const int known = ctas == 2   ? machine.clusters_of_2
                    : ctas == 4 ? machine.clusters_of_4
                                : machine.clusters_of_8;
  *count = std::min(known, machine.sm_count / static_cast<int>(ctas));
  return call.code;
}

CUresult encode(CUtensorMap* map, CUtensorMapDataType type, cuuint32_t rank, void* address,
                const cuuint64_t* dims, const cuuint64_t* strides, const cuuint32_t* box,
                const cuuint32_t* steps, CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle,
                CUtensorMapL2promotion l2, CUtensorMapFloatOOBfill fill) {
  const Call call("cuTensorMapEncodeTiled");
  if (current() == nullptr) return CUDA_ERROR_INVALID_CONTEXT;  // as an H200 does
  if (call.code != CUDA_SUCCESS) return call.code;
  const int bytes = type == CU_TENSOR_MAP_DATA_TYPE_UINT8     ? 1
                    : type == CU_TENSOR_MAP_DATA_TYPE_FLOAT32 ? 4
                                                              : 2;
  const u64 span = swizzle == CU_TENSOR_MAP_SWIZZLE_NONE ? 16 : 16u << swizzle;
  bool legal = reinterpret_cast<u64>(map) % 64 == 0 && (rank == 3 || rank == 5) &&
               reinterpret_cast<u64>(address) % 16 == 0 && address != nullptr && box[0] * bytes % 16 == 0 &&
               box[0] * bytes <= span;
  for (u32 i = 0; i < rank; ++i)
    legal = legal && dims[i] >= 1 && dims[i] <= u64{1} << 32 && box[i] >= 1 && box[i] <= 256 && steps[i] == 1;
  for (u32 i = 0; i + 1 < rank; ++i)
    legal = legal && strides[i] > 0 && strides[i] % 16 == 0 && strides[i] < u64{1} << 40;
  if (!legal) return CUDA_ERROR_INVALID_VALUE;
  const u64 words[] = {reinterpret_cast<u64>(address),
                       dims[0],
                       dims[1],
                       dims[2],
                       strides[0],
                       strides[1],
                       box[0] | u64{box[1]} << 16 | u64{box[2]} << 32,
                       static_cast<u64>(type) | static_cast<u64>(swizzle) << 8 | static_cast<u64>(l2) << 16 |
                           static_cast<u64>(fill) << 24 | static_cast<u64>(interleave) << 32 |
                           u64{rank} << 40,
                       kMagic,
                       rank == 5 ? dims[3] : 0,
                       rank == 5 ? dims[4] : 0,
                       rank == 5 ? strides[2] : 0,
                       rank == 5 ? strides[3] : 0,
                       rank == 5 ? box[3] | u64{box[4]} << 32 : 0};
  std::memcpy(map, words, sizeof words);
  return CUDA_SUCCESS;
}

CUresult encode_im2col(CUtensorMap* map, CUtensorMapDataType type, cuuint32_t rank, void* address,
                       const cuuint64_t* dims, const cuuint64_t* strides, const int* lower, const int* upper,
                       cuuint32_t channels, cuuint32_t pixels, const cuuint32_t* steps,
                       CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle,
                       CUtensorMapL2promotion l2, CUtensorMapFloatOOBfill fill) {
  const Call call("cuTensorMapEncodeIm2col");
  if (current() == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  if (call.code != CUDA_SUCCESS) return call.code;
  const int bytes = type == CU_TENSOR_MAP_DATA_TYPE_UINT8     ? 1
                    : type == CU_TENSOR_MAP_DATA_TYPE_FLOAT32 ? 4
                                                              : 2;
  const u32 span = swizzle == CU_TENSOR_MAP_SWIZZLE_NONE ? 256 : 16u << swizzle;
  const int limit = rank == 3 ? 1 << 15 : rank == 4 ? 1 << 7 : 1 << 4;
  bool legal = reinterpret_cast<u64>(map) % 64 == 0 && rank >= 3 && rank <= 5 &&
               reinterpret_cast<u64>(address) % 16 == 0 && address != nullptr && channels >= 1 &&
               channels <= 256 && pixels >= 1 && pixels <= 1024 && channels * bytes <= span;
  for (u32 i = 0; i < rank; ++i)
    legal = legal && dims[i] >= 1 && dims[i] <= u64{1} << 32 && steps[i] >= 1 && steps[i] <= 8;
  for (u32 i = 0; i + 1 < rank; ++i)
    legal = legal && strides[i] > 0 && strides[i] % 16 == 0 && strides[i] < u64{1} << 40;
  for (u32 i = 0; i + 2 < rank; ++i)
    for (const int corner : {lower[i], upper[i]}) legal = legal && corner >= -limit && corner < limit;
  if (!legal) return CUDA_ERROR_INVALID_VALUE;
  // Each word holds three 16-bit numbers: corners or steps along w, h and d.
  const auto three = [&](const auto* values, u32 from) {
    u64 word = 0;
    for (u32 i = 0; i + 2 < rank; ++i) word |= u64{static_cast<u16>(values[i + from])} << (16 * i);
    return word;
  };
  const u64 words[] = {reinterpret_cast<u64>(address),
                       dims[0],
                       dims[1],
                       dims[2],
                       strides[0],
                       strides[1],
                       channels | u64{pixels} << 16,
                       static_cast<u64>(type) | static_cast<u64>(swizzle) << 8 | static_cast<u64>(l2) << 16 |
                           static_cast<u64>(fill) << 24 | static_cast<u64>(interleave) << 32 |
                           u64{rank} << 40 | u64{1} << 48,  // bit 48: im2col mode
                       kMagic,
                       rank > 3 ? dims[3] | (rank > 4 ? dims[4] << 32 : 0) : 0,
                       three(lower, 0),
                       rank > 3 ? strides[2] : 0,
                       rank > 4 ? strides[3] : 0,
                       three(upper, 0),
                       three(steps, 1)};
  static_assert(sizeof words <= sizeof *map);
  std::memcpy(map, words, sizeof words);
  return CUDA_SUCCESS;
}

CUresult replace(CUtensorMap* map, void* address) {
  const Call call("cuTensorMapReplaceAddress");
  if (current() == nullptr) return CUDA_ERROR_INVALID_CONTEXT;  // as an H200 does
  if (call.code != CUDA_SUCCESS) return call.code;
  const bool legal = reinterpret_cast<u64>(map) % alignof(CUtensorMap) == 0 && map->opaque[8] == kMagic &&
                     address != nullptr && reinterpret_cast<u64>(address) % 16 == 0;
  if (!legal) return CUDA_ERROR_INVALID_VALUE;
  map->opaque[0] = reinterpret_cast<u64>(address);
  return CUDA_SUCCESS;
}

/// Returns the parameters' type. Images of open_fake_device() end with the unit's text, which tells.
ParamsKind params_of(const void* image) {
  const char* text = static_cast<const char*>(image);
  if (std::memcmp(text,
                  "\x7f"
                  "ELF",
                  4) == 0)
    text += kFakeElfBytes;
  if (std::strncmp(text, kFakeImage, std::strlen(kFakeImage)) != 0) return ParamsKind::other;
  if (std::strstr(text, "GroupedParams") != nullptr) return ParamsKind::grouped;
  if (std::strstr(text, "FactoredParams") != nullptr) return ParamsKind::factored;
  if (std::strstr(text, "NarrowParams") != nullptr) return ParamsKind::narrow;
  if (std::strstr(text, "WideParams") != nullptr) return ParamsKind::wide;
  if (std::strstr(text, "StripParams") != nullptr) return ParamsKind::strip;
  if (std::strstr(text, "LocateParams") != nullptr) return ParamsKind::locate;
  if (std::strstr(text, "kernels/compare.cuh") != nullptr) return ParamsKind::compare;
  for (const char* name : {"GemmParams", "ConvParams", "PhasedParams"})
    if (std::strstr(text, name) != nullptr) return ParamsKind::gemm;
  return ParamsKind::other;
}

/// Answers where CTAs run: SM i is in GPC i / 16, and clusters are dealt to GPCs in turn, as on an H200. A
/// cluster is never divided between GPCs.
void locate(const LocateParams& params, u32 ctas, u32 cluster) {
  constexpr u32 kGpcSms = 16;
  const u32 sms = static_cast<u32>(state->driver->machine.sm_count);
  std::vector<u32> used((sms + kGpcSms - 1) / kGpcSms);
  for (u32 cta = 0, gpc = 0; cta < ctas; cta += cluster, ++gpc) {
    for (u32 tried = 0; tried < used.size(); ++tried, ++gpc)
      if (const u32 g = gpc % static_cast<u32>(used.size());
          used[g] + cluster <= kGpcSms && g * kGpcSms + used[g] + cluster <= sms)
        break;
    const u32 g = gpc % static_cast<u32>(used.size());
    for (u32 i = 0; i < cluster; ++i) params.sms[cta + i] = (g * kGpcSms + used[g] + i) % sms;
    used[g] += cluster;
  }
}

/// Compares on the host, with the same function as the kernel (kernels/compare.cuh).
void compare(const CompareParams& params) {
  CompareTotals& totals = *params.totals;
  for (i64 i = 0; i < elements_of(params); ++i) add_element(params, i, totals);
}

/// Returns the address of the launch's D; 0 if the launch is not a product.
u64 result_of(ParamsKind kind, const LaunchRecord& record) {
  switch (kind) {
    case ParamsKind::gemm:
    case ParamsKind::grouped:
    case ParamsKind::factored: return reinterpret_cast<u64>(record.params.d);
    case ParamsKind::narrow: return reinterpret_cast<u64>(record.narrow.d);
    case ParamsKind::wide: return reinterpret_cast<u64>(record.wide.d);
    case ParamsKind::strip: return reinterpret_cast<u64>(record.strip.d);
    default: return 0;
  }
}

/// Writes a wrong result to `address` now or, while capturing, at each replay of the stream's graph.
void spoil(u64 address, const FakeStream* stream) {
  if (address == 0) return;
  if (stream != nullptr && stream->captured != nullptr)
    stream->captured->wrong_writes.push_back(address);
  else
    write_wrong(address);
}

/// Must be called without holding the state's lock.
void wait_while_blocked(int Blocked::*which) {
  if (current() == nullptr) return;
  Blocked& block = state->block;
  std::unique_lock lock(block.mutex);
  const int ordinal = current_ordinal();
  if (block.*which != ordinal || block.gave_up) return;
  ++block.waiting;
  if (!block.changed.wait_for(lock, FakeDriver::kMostBlocked, [&] { return block.*which != ordinal; }))
    block.gave_up = true;
  --block.waiting;
}

CUresult launch_ex(const CUlaunchConfig* config, CUfunction function, void** params, void** extra) {
  wait_while_blocked(&Blocked::ordinal);
  const Call call("cuLaunchKernelEx");
  if (call.code != CUDA_SUCCESS) return call.code;
  const auto& module = *reinterpret_cast<FakeModule*>(function);
  auto* stream = reinterpret_cast<FakeStream*>(config->hStream);
  if (current() == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  if (module.ordinal != current_ordinal()) return CUDA_ERROR_INVALID_HANDLE;
  if (stream != nullptr && stream->ordinal != current_ordinal()) return CUDA_ERROR_INVALID_HANDLE;
  if (const CUresult refused = use_of(config->hStream); refused != CUDA_SUCCESS) return refused;
  u32 cluster = 1;
  bool dependent = false;
  for (u32 i = 0; i < config->numAttrs; ++i) {
    const CUlaunchAttribute& attribute = config->attrs[i];
    if (attribute.id == CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION) cluster = attribute.value.clusterDim.x;
    if (attribute.id == CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION)
      dependent = attribute.value.programmaticStreamSerializationAllowed != 0;
  }
  const bool legal = config->gridDimX >= 1 && config->gridDimY >= 1 && config->gridDimY <= 65535 &&
                     config->gridDimZ == 1 && config->gridDimX % cluster == 0 && config->blockDimX >= 1 &&
                     config->blockDimX <= 1024 && config->blockDimY == 1 && config->blockDimZ == 1 &&
                     cluster <= (module.params == ParamsKind::locate ? 16 : 8) && extra == nullptr &&
                     static_cast<int>(config->sharedMemBytes) <= module.max_smem;
  if (!legal) return CUDA_ERROR_INVALID_VALUE;
  if (module.params == ParamsKind::locate) {  // tests do not count this kernel
    locate(*static_cast<const LocateParams*>(params[0]), config->gridDimX, cluster);
    return CUDA_SUCCESS;
  }
  if (module.params == ParamsKind::compare) {  // nor this one
    compare(*static_cast<const CompareParams*>(params[0]));
    return CUDA_SUCCESS;
  }
  const bool is_kept = state->launches < FakeDriver::kKeptLaunches;
  if (is_kept || state->is_wrong) {
    LaunchRecord& record = is_kept ? state->records[static_cast<size_t>(state->launches)] : state->latest;
    record = {config->gridDimX,
              config->gridDimY,
              config->blockDimX,
              cluster,
              config->sharedMemBytes,
              config->hStream,
              stream != nullptr && stream->captured != nullptr,
              dependent,
              {},
              {},
              {}};
    if (module.params == ParamsKind::gemm || module.params == ParamsKind::grouped ||
        module.params == ParamsKind::factored)
      std::memcpy(&record.params, params[0], sizeof record.params);
    if (module.params == ParamsKind::factored)
      std::memcpy(&record.factored, params[0], sizeof record.factored);
    if (module.params == ParamsKind::grouped) std::memcpy(&record.grouped, params[0], sizeof record.grouped);
    if (module.params == ParamsKind::narrow) std::memcpy(&record.narrow, params[0], sizeof record.narrow);
    if (module.params == ParamsKind::wide) std::memcpy(&record.wide, params[0], sizeof record.wide);
    if (module.params == ParamsKind::strip) std::memcpy(&record.strip, params[0], sizeof record.strip);
    if (state->is_wrong && state->is_wrong(record)) spoil(result_of(module.params, record), stream);
  }
  ++state->launches;
  if (stream != nullptr && stream->captured != nullptr) {
    if (stream->captured->nodes.empty()) stream->captured->first_smem = config->sharedMemBytes;
    stream->captured->nodes.push_back({CU_GRAPH_NODE_TYPE_KERNEL, function, dependent});
  }
  return CUDA_SUCCESS;
}

}  // namespace

const NvmlApi& fake_nvml() {
  static const NvmlApi api = [] {
    NvmlApi table;
    table.by_bus_id = [](const char* bus_id, NvmlDevice* device) {
      *device = nullptr;
      return std::strncmp(bus_id, "0000:0", 6) == 0 ? kNvmlSuccess : 1;
    };
    table.driver = [](char* text, unsigned size) {
      const FakeDriver::Machine& machine = state->driver->machine;
      std::strncpy(text, machine.driver, size);
      return machine.has_nvml ? kNvmlSuccess : 1;
    };
    table.power_limit = [](NvmlDevice, unsigned* milliwatts) {
      const FakeDriver::Machine& machine = state->driver->machine;
      *milliwatts = static_cast<unsigned>(machine.power_limit_mw);
      return machine.has_nvml ? kNvmlSuccess : 1;
    };
    return table;
  }();
  return api;
}

void fill_contexts(DriverApi& api) {
  api.cuInit = [](unsigned) { return Call("cuInit").code; };
  api.cuDriverGetVersion = [](int* version) {
    return *version = state->driver->machine.driver_version, Call("cuDriverGetVersion").code;
  };
  api.cuGetErrorName = [](CUresult, const char** text) { return *text = "CUDA_ERROR_FAKE", CUDA_SUCCESS; };
  api.cuGetErrorString = [](CUresult, const char** text) { return *text = "made up", CUDA_SUCCESS; };
  api.cuDeviceGetCount = [](int* count) {
    return *count = state->driver->machine.device_count, Call("cuDeviceGetCount").code;
  };
  api.cuDeviceGet = [](CUdevice* device, int ordinal) { return *device = ordinal, Call("cuDeviceGet").code; };
  api.cuDeviceGetName = [](char* name, int size, CUdevice) {
    return std::strncpy(name, state->driver->machine.name, static_cast<std::size_t>(size)),
           Call("cuDeviceGetName").code;
  };
  api.cuDeviceGetAttribute = device_attribute;
  api.cuDeviceGetPCIBusId = [](char* text, int size, CUdevice device) {
    std::snprintf(text, static_cast<std::size_t>(size), "0000:0%d:00.0", device);
    return Call("cuDeviceGetPCIBusId").code;
  };
  api.cuDeviceGetUuid = [](CUuuid* uuid, CUdevice device) {
    std::memset(uuid->bytes, state->driver->machine.uuid + device, sizeof uuid->bytes);
    return Call("cuDeviceGetUuid").code;
  };
  api.cuDevicePrimaryCtxRetain = [](CUcontext* context, CUdevice device) {
    const Call call("cuDevicePrimaryCtxRetain");
    if (call.code != CUDA_SUCCESS) return call.code;
    *context = context_of(device);
    ++state->alive.contexts;
    return CUDA_SUCCESS;
  };
  api.cuDevicePrimaryCtxRelease = [](CUdevice) {
    const Call call("cuDevicePrimaryCtxRelease");
    --state->alive.contexts;
    return call.code;
  };
  api.cuCtxGetCurrent = [](CUcontext* context) { return *context = current(), Call("cuCtxGetCurrent").code; };
  api.cuCtxGetDevice = [](CUdevice* device) {
    return *device = current_ordinal(), Call("cuCtxGetDevice").code;
  };
  api.cuCtxPushCurrent = [](CUcontext context) {
    const Call call("cuCtxPushCurrent");
    if (call.code != CUDA_SUCCESS) return call.code;
    stack[depth++] = context;
    ++state->alive.pushed;
    return CUDA_SUCCESS;
  };
  api.cuCtxPopCurrent = [](CUcontext* context) {
    const Call call("cuCtxPopCurrent");
    *context = stack[--depth];
    --state->alive.pushed;
    return call.code;
  };
  api.cuCtxSynchronize = [] {
    const Call call("cuCtxSynchronize");
    if (state->capturing == 0) return call.code;
    for (FakeStream* stream : state->streams)
      if (stream->captured != nullptr) stream->captured->lost = true;
    return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  };
}

void fill_kernels(DriverApi& api) {
  api.cuModuleLoadData = [](CUmodule* module, const void* image) {
    wait_while_blocked(&Blocked::loads_ordinal);
    const Call call("cuModuleLoadData");
    if (call.code != CUDA_SUCCESS) return call.code;
    if (const CUresult refused = unsafe_call(); refused != CUDA_SUCCESS) return refused;
    *module = reinterpret_cast<CUmodule>(new FakeModule{current_ordinal(), params_of(image)});
    ++state->alive.modules;
    return CUDA_SUCCESS;
  };
  api.cuModuleUnload = [](CUmodule module) {
    const Call call("cuModuleUnload");
    const CUresult allowed = unsafe_call();
    delete reinterpret_cast<FakeModule*>(module);
    --state->alive.modules;
    return allowed != CUDA_SUCCESS ? allowed : call.code;
  };
  api.cuModuleGetFunction = [](CUfunction* function, CUmodule module, const char* name) {
    const Call call("cuModuleGetFunction");
    if (std::strcmp(name, "sluice_entry") != 0) return CUDA_ERROR_NOT_FOUND;
    *function = reinterpret_cast<CUfunction>(module);
    return call.code;
  };
  api.cuFuncSetAttribute = [](CUfunction function, CUfunction_attribute which, int value) {
    const Call call("cuFuncSetAttribute");
    if (which == CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES)
      reinterpret_cast<FakeModule*>(function)->max_smem = value;
    return call.code;
  };
  api.cuFuncGetAttribute = [](int* value, CUfunction_attribute, CUfunction) {
    return *value = 168, Call("cuFuncGetAttribute").code;
  };
  api.cuLaunchKernelEx = launch_ex;
  api.cuOccupancyMaxActiveClusters = active_clusters;
  api.cuTensorMapEncodeTiled = encode;
  api.cuTensorMapEncodeIm2col = encode_im2col;
  api.cuTensorMapReplaceAddress = replace;
}

}  // namespace sluice::fake
