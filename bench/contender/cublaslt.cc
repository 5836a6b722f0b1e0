// SPDX-License-Identifier: Apache-2.0
// Searches for the library, opens it by dlopen, and fills the table of entry points. The handle is made last,
// because it needs a current context.
#include "bench/contender/cublaslt.h"

#include <vector>

#include "bench/contender/shared_library.h"

namespace sluice::bench {
namespace {

Error not_found(const std::string& tried) {
  return {ErrorCode::toolchain,
          fmt::format("cuBLASLt could not be loaded; install the CUDA toolkit's libcublas, or name "
                      "libcublasLt.so with --cublaslt. Tried:{}",
                      tried)};
}

std::string fill_table(void* library, CublasLtApi& api) {
  SymbolTable symbols{library};
  symbols.look_up(api.create, "cublasLtCreate");
  symbols.look_up(api.destroy, "cublasLtDestroy");
  symbols.look_up(api.version, "cublasLtGetVersion");
  symbols.look_up(api.status_string, "cublasLtGetStatusString");
  symbols.look_up(api.matmul, "cublasLtMatmul");
  symbols.look_up(api.heuristic, "cublasLtMatmulAlgoGetHeuristic");
  symbols.look_up(api.algo_config, "cublasLtMatmulAlgoConfigGetAttribute");
  symbols.look_up(api.desc_create, "cublasLtMatmulDescCreate");
  symbols.look_up(api.desc_destroy, "cublasLtMatmulDescDestroy");
  symbols.look_up(api.desc_set, "cublasLtMatmulDescSetAttribute");
  symbols.look_up(api.layout_create, "cublasLtMatrixLayoutCreate");
  symbols.look_up(api.layout_destroy, "cublasLtMatrixLayoutDestroy");
  symbols.look_up(api.layout_set, "cublasLtMatrixLayoutSetAttribute");
  symbols.look_up(api.preference_create, "cublasLtMatmulPreferenceCreate");
  symbols.look_up(api.preference_destroy, "cublasLtMatmulPreferenceDestroy");
  symbols.look_up(api.preference_set, "cublasLtMatmulPreferenceSetAttribute");
  return symbols.missing;
}

}  // namespace

std::vector<std::string> cublaslt_places(const std::string& path) {
  if (!path.empty()) return {path};
  std::vector<std::string> places = {"libcublasLt.so.13", "/usr/local/cuda/lib64/libcublasLt.so.13"};
  append_matches("/usr/local/cuda-13*/lib64/libcublasLt.so.13", places);
  for (const std::string& folder : package_folders())
    append_matches(fmt::format("{}/nvidia/cu13/lib/libcublasLt.so.13", folder), places);
  places.push_back("libcublasLt.so.12");
  return places;
}

Result<std::string> find_cublaslt(const std::string& path) {
  std::string opened, tried;
  void* library = open_first(cublaslt_places(path), opened, tried);
  if (library == nullptr) return not_found(tried);
  CublasLtApi api{};
  const std::string missing = fill_table(library, api);
  if (missing.empty()) opened = file_of(api.create, opened);
  dlclose(library);
  if (!missing.empty())
    return Error{ErrorCode::toolchain, fmt::format("{} lacks {}; a newer one is needed", opened, missing)};
  return opened;
}

Result<std::shared_ptr<const CublasLt>> CublasLt::load(const std::string& path) {
  std::shared_ptr<CublasLt> lt(new CublasLt);
  std::string tried;
  lt->library_ = open_first(cublaslt_places(path), lt->path_, tried);
  if (lt->library_ == nullptr) return not_found(tried);
  const std::string missing = fill_table(lt->library_, lt->api_);
  if (!missing.empty())
    return Error{ErrorCode::toolchain, fmt::format("{} lacks {}; a newer one is needed", lt->path_, missing)};
  lt->path_ = file_of(lt->api_.create, lt->path_);
  const cublasStatus_t status = lt->api_.create(&lt->handle_);
  if (status != CUBLAS_STATUS_SUCCESS)
    return Error{ErrorCode::driver, fmt::format("cublasLtCreate failed: {}", lt->api_.status_string(status))};
  return std::shared_ptr<const CublasLt>(std::move(lt));
}

CublasLt::~CublasLt() {
  if (handle_ != nullptr) api_.destroy(handle_);
  // The library is never unloaded, because its threads and CUDA modules may outlive the handle.
}

std::string CublasLt::version() const {
  const size_t number = api_.version();  // encoded as major * 10000 + minor * 100 + patch
  return fmt::format("{}.{}.{}", number / 10000, number / 100 % 100, number % 100);
}

}  // namespace sluice::bench
