// SPDX-License-Identifier: Apache-2.0
// The peer library, loaded at run time: a machine without it still benches sluice alone. One handle, one
// workspace; used from one thread and one stream. cublaslt_problem.h states problems in its terms.
#pragma once

#include <cublasLt.h>

#include <memory>
#include <string>
#include <vector>

#include <sluice/result.h>

namespace sluice::bench {

/// The entry points that the bench calls; all set once loaded.
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
  /// `path`: the library to load; empty: the loader's own search, the toolkit's folder, and what PyTorch
  /// brings. Needs the device's context to be current. Errors: toolchain (not found), driver (no handle).
  static Result<std::shared_ptr<const CublasLt>> load(const std::string& path);
  ~CublasLt();
  CublasLt(const CublasLt&) = delete;
  CublasLt& operator=(const CublasLt&) = delete;

  const CublasLtApi& api() const { return api_; }
  cublasLtHandle_t handle() const { return handle_; }
  const std::string& path() const { return path_; }
  std::string version() const;  // "13.0.2"

 private:
  CublasLt() = default;
  void* library_ = nullptr;
  CublasLtApi api_{};
  cublasLtHandle_t handle_ = nullptr;
  std::string path_;
};

/// The places of the library, most likely first; only `path` if it is not empty.
std::vector<std::string> cublaslt_places(const std::string& path);
/// Searches without making a handle, for `sluice doctor`: the path that loads, or why none does.
Result<std::string> find_cublaslt(const std::string& path);

}  // namespace sluice::bench
