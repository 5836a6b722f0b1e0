// SPDX-License-Identifier: Apache-2.0
#include <sluice/run/driver/ask_gpu.h>

#include <array>
#include <cstdio>

#include <sluice/run/driver/capture_mode.h>
#include <sluice/run/driver/generated/empty_kernel.h>
#include <sluice/run/driver/nvml.h>

namespace sluice {
namespace {

/// The largest CTA of the GEMM kernels, in threads, and a size of shared memory with which one CTA fits on an
/// SM.
constexpr u32 kThreads = 384;
constexpr int kSmemBytes = 200 << 10;

double attribute(const PrimaryContext& primary, CUdevice_attribute which) {
  int value = 0;
  const CUresult code = primary.api().cuDeviceGetAttribute(&value, which, primary.device());
  return code == CUDA_SUCCESS && value > 0 ? value : 0;
}

/// Returns how many clusters of `ctas` CTAs fit on the GPU at once; 0 if the driver does not answer.
int count_clusters(const DriverApi& api, CUfunction kernel, u32 ctas) {
  CUlaunchAttribute cluster{};
  cluster.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
  cluster.value.clusterDim = {ctas, 1, 1};
  CUlaunchConfig config{};
  config.gridDimX = ctas;
  config.gridDimY = config.gridDimZ = 1;
  config.blockDimX = kThreads;
  config.blockDimY = config.blockDimZ = 1;
  config.sharedMemBytes = kSmemBytes;
  config.attrs = &cluster;
  config.numAttrs = 1;
  int count = 0;
  return api.cuOccupancyMaxActiveClusters(&count, kernel, &config) == CUDA_SUCCESS ? count : 0;
}

void ask_clusters(const PrimaryContext& primary, GpuFacts& facts) {
  const DriverApi& api = primary.api();
  if (api.cuOccupancyMaxActiveClusters == nullptr) return;
  const ContextScope scope(primary);
  if (!scope.entered()) return;
  const RelaxedCapture relaxed(api);
  CUmodule module = nullptr;
  if (api.cuModuleLoadData(&module, kEmptyKernel) != CUDA_SUCCESS) return;
  CUfunction kernel = nullptr;
  if (api.cuModuleGetFunction(&kernel, module, "sluice_entry") == CUDA_SUCCESS &&
      api.cuFuncSetAttribute(kernel, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, kSmemBytes) ==
          CUDA_SUCCESS) {
    facts.clusters_of_2 = count_clusters(api, kernel, 2);
    facts.clusters_of_4 = count_clusters(api, kernel, 4);
    facts.clusters_of_8 = count_clusters(api, kernel, 8);
  }
  api.cuModuleUnload(module);
}

}  // namespace

std::string pci_bus_id(const DriverApi& api, CUdevice device) {
  std::array<char, 32> text{};
  if (api.cuDeviceGetPCIBusId == nullptr ||
      api.cuDeviceGetPCIBusId(text.data(), static_cast<int>(text.size()) - 1, device) != CUDA_SUCCESS)
    return "";
  return text.data();
}

Card card_of(const PrimaryContext& primary, const std::string& name) {
  const DriverApi& api = primary.api();
  Card card{.gpu = name};
  CUuuid uuid{};
  if (api.cuDeviceGetUuid != nullptr && api.cuDeviceGetUuid(&uuid, primary.device()) == CUDA_SUCCESS)
    for (const char byte : uuid.bytes) {
      std::array<char, 3> digits{};
      std::snprintf(digits.data(), digits.size(), "%02x", static_cast<unsigned char>(byte));
      card.uuid += digits.data();
    }
  card.driver = nvml_driver_version();
  int cuda = 0;
  if (card.driver.empty() && api.cuDriverGetVersion(&cuda) == CUDA_SUCCESS)
    card.driver = "CUDA " + std::to_string(cuda);
  return card;
}

void ask_gpu(const PrimaryContext& primary, GpuFacts& facts) {
  constexpr double kKhzPerMhz = 1000;
  facts.max_sm_mhz = attribute(primary, CU_DEVICE_ATTRIBUTE_CLOCK_RATE) / kKhzPerMhz;
  facts.memory_mhz = attribute(primary, CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE) / kKhzPerMhz;
  facts.bus_bits = static_cast<int>(attribute(primary, CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH));
  facts.power_limit_w = NvmlGpu::find(pci_bus_id(primary.api(), primary.device()).c_str()).power_limit_w();
  ask_clusters(primary, facts);
}

}  // namespace sluice
