// SPDX-License-Identifier: Apache-2.0
// cuBLASLt, loaded at run time. Without it, the bench times sluice alone. There is one handle and one
// workspace, used from one thread and one stream. cublaslt_problem.h describes problems in its terms.
#pragma once

#include <cublasLt.h>

#include <memory>
#include <string>
#include <vector>

#include <sluice/result.h>

namespace sluice::bench {

/// cuBLASLt's entry points that the bench calls. None is null once the library is loaded.
struct CublasLtApi {
  decltype(&cublasLtCreate) create;
  decltype(&cublasLtDestroy) destroy;
  decltype(&cublasLtGetVersion) version;
  decltype(&cublasLtGetStatusString) status_string;
  decltype(&cublasLtMatmul) matmul;
  decltype(&cublasLtMatmulAlgoGetHeuristic) heuristic;
  decltype(&cublasLtMatmulAlgoConfigGetAttribute) algo_config;
  decltype(&cublasLtMatmulDescCreate) desc_create;
  decltype(&cublasLtMatmulDescDestroy) desc_destroy;
  decltype(&cublasLtMatmulDescSetAttribute) desc_set;
  decltype(&cublasLtMatrixLayoutCreate) layout_create;
  decltype(&cublasLtMatrixLayoutDestroy) layout_destroy;
  decltype(&cublasLtMatrixLayoutSetAttribute) layout_set;
  decltype(&cublasLtMatmulPreferenceCreate) preference_create;
  decltype(&cublasLtMatmulPreferenceDestroy) preference_destroy;
  decltype(&cublasLtMatmulPreferenceSetAttribute) preference_set;
};

class CublasLt {
 public:
  /// Loads cuBLASLt from `path`. If that is empty, tries the loader's search path, the toolkit's folder and
  /// PyTorch's packages. The device's context must be current. Errors: toolchain (not found), driver (no
  /// handle).
  static Result<std::shared_ptr<const CublasLt>> load(const std::string& path);
  ~CublasLt();
  CublasLt(const CublasLt&) = delete;
  CublasLt& operator=(const CublasLt&) = delete;

  const CublasLtApi& api() const { return api_; }
  cublasLtHandle_t handle() const { return handle_; }
  const std::string& path() const { return path_; }
  std::string version() const;  // such as "13.0.2"

 private:
  CublasLt() = default;
  void* library_ = nullptr;
  CublasLtApi api_{};
  cublasLtHandle_t handle_ = nullptr;
  std::string path_;
};

/// Returns paths at which the library may be, most likely first. Returns only `path` if that is not empty.
std::vector<std::string> cublaslt_places(const std::string& path);
/// Returns the path that loads, for `sluice doctor`; makes no handle. The error lists why each path failed.
Result<std::string> find_cublaslt(const std::string& path);

}  // namespace sluice::bench
