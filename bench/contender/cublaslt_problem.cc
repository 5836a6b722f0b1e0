// SPDX-License-Identifier: Apache-2.0
// Attributes of cuBLASLt's descriptors, and the features it lacks. Sources: comments of cublasLt.h (CUDA
// 13.0) and the "cublasLtMatmul" tables of its manual.
#include "bench/contender/cublaslt_problem.h"

#include <fmt/format.h>

#include <sluice/try.h>

#include "bench/device.h"

namespace sluice::bench {
namespace {

cudaDataType_t cuda_type(DType type) {
  switch (type) {
    case DType::bf16: return CUDA_R_16BF;
    case DType::fp16: return CUDA_R_16F;
    case DType::e4m3: return CUDA_R_8F_E4M3;
    case DType::e5m2: return CUDA_R_8F_E5M2;
    default: return CUDA_R_32F;
  }
}

/// Returns why cuBLASLt cannot compute this problem; nullptr if it may.
const char* missing_counterpart(const Problem& p) {
  const Epilogue& e = p.epilogue;
  if (p.a.type == DType::e5m2 && p.b.type == DType::e5m2) return "cuBLASLt has no e5m2 x e5m2 product";
  if (reads_table(p)) return "cuBLASLt has no groups before CUDA 13.3";
  if (e.gated) return "cuBLASLt has no gated epilogue";
  if (e.scale_d != ScaleMode::none) return "cuBLASLt multiplies by a scale of D and does not divide by it";
  if (e.activation == Activation::silu) return "cuBLASLt has no SiLU epilogue";
  if (!is_fp8(p.a.type) && (e.scale_a != ScaleMode::none || e.scale_b != ScaleMode::none))
    return "cuBLASLt takes scale pointers for fp8 inputs only";
  if (is_block_scaled(e) && p.batch != 1) return "cuBLASLt takes block scales of one product, and no batch";
  if ((e.scale_a == ScaleMode::vector) != (e.scale_b == ScaleMode::vector))
    return "cuBLASLt needs vector scales on both inputs or on none";
  if (e.residual && !is_fp8(p.d.type) && e.c_type != p.d.type)
    return "cuBLASLt needs C to have the type of D";
  return nullptr;
}

int32_t scale_mode_of(ScaleMode mode, cublasLtMatmulMatrixScale_t of_blocks) {
  switch (mode) {
    case ScaleMode::vector: return CUBLASLT_MATMUL_MATRIX_SCALE_OUTER_VEC_32F;
    case ScaleMode::block:
    case ScaleMode::vector128: return of_blocks;
    default: return CUBLASLT_MATMUL_MATRIX_SCALE_SCALAR_32F;
  }
}

cublasLtEpilogue_t epilogue_of(const Epilogue& e) {
  const bool bias = e.bias != Bias::none;
  switch (e.activation) {
    case Activation::relu: return bias ? CUBLASLT_EPILOGUE_RELU_BIAS : CUBLASLT_EPILOGUE_RELU;
    case Activation::gelu: return bias ? CUBLASLT_EPILOGUE_GELU_BIAS : CUBLASLT_EPILOGUE_GELU;
    default: return bias ? CUBLASLT_EPILOGUE_BIAS : CUBLASLT_EPILOGUE_DEFAULT;
  }
}

Result<void> checked(const CublasLtApi& api, cublasStatus_t status, const char* what) {
  if (status == CUBLAS_STATUS_SUCCESS) return {};
  return Error{ErrorCode::driver, fmt::format("cuBLASLt: {} failed: {}", what, api.status_string(status))};
}

/// Sets attributes of a descriptor one by one and keeps the first failure.
struct DescWriter {
  const CublasLtApi& api;
  cublasLtMatmulDesc_t desc;
  cublasStatus_t status = CUBLAS_STATUS_SUCCESS;

  template <class T>
  void set(cublasLtMatmulDescAttributes_t attribute, const T& value) {
    if (status == CUBLAS_STATUS_SUCCESS) status = api.desc_set(desc, attribute, &value, sizeof value);
  }
};

/// A matrix as cuBLASLt sees it: column-major.
struct ColumnMajor {
  DType type;
  i64 rows, columns, ld, batch_stride;
};

Result<void> make_layout(const CublasLtApi& api, const ColumnMajor& x, i64 batch,
                         cublasLtMatrixLayout_t& layout) {
  cublasStatus_t status = api.layout_create(&layout, cuda_type(x.type), static_cast<uint64_t>(x.rows),
                                            static_cast<uint64_t>(x.columns), x.ld);
  if (status == CUBLAS_STATUS_SUCCESS && batch > 1) {
    const int32_t count = static_cast<int32_t>(batch);
    const int64_t stride = x.batch_stride;
    status = api.layout_set(layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count, sizeof count);
    if (status == CUBLAS_STATUS_SUCCESS)
      status = api.layout_set(layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &stride, sizeof stride);
  }
  return checked(api, status, "a matrix layout");
}

/// Error bound of the tanh approximation of GELU. It differs by at most 4.74e-4 from x * Phi(x), near |x| =
/// 2.7.
constexpr double kTanhGeluError = 4.8e-4;

}  // namespace

Result<std::shared_ptr<const CublasLtProblem>> CublasLtProblem::create(const Lab& lab,
                                                                       std::span<const ProblemData> copies) {
  const Problem& p = copies[0].problem();
  if (lab.cublaslt == nullptr) return Error{ErrorCode::toolchain, lab.without_cublaslt};
  if (const char* reason = missing_counterpart(p)) return Error{ErrorCode::invalid_type, reason};
  const ContextScope scope(context_of(lab.device));  // the heuristic queries the current device
  SLUICE_TRY(scope.entered());
  std::shared_ptr<CublasLtProblem> made(new CublasLtProblem(lab));
  made->copies_ = copies;
  if (p.epilogue.activation == Activation::gelu) made->caveat_ = "tanh GELU, ours is exact";
  SLUICE_TRY(made->make_layouts(p));
  for (const ProblemData& data : copies) {
    cublasLtMatmulDesc_t desc = nullptr;
    if (is_block_scaled(p.epilogue)) {
      SLUICE_TAKE(PeerScales scales, PeerScales::create(lab.device, p));
      made->scales_.push_back(std::move(scales));
      const int copy = static_cast<int>(made->scales_.size()) - 1;
      SLUICE_TRY(made->copy_scales(copy));
    }
    const Result<void> done = made->make_desc(p, data, desc);
    if (desc != nullptr) made->descs_.push_back(desc);
    if (!done) return done.error();
  }
  SLUICE_TRY(made->ask_heuristic());
  return std::shared_ptr<const CublasLtProblem>(std::move(made));
}

CublasLtProblem::~CublasLtProblem() {
  const CublasLtApi& api = lab_.cublaslt->api();
  for (cublasLtMatmulDesc_t desc : descs_) api.desc_destroy(desc);
  for (cublasLtMatrixLayout_t layout : {left_, right_, c_, d_})
    if (layout != nullptr) api.layout_destroy(layout);
}

Result<void> CublasLtProblem::make_layouts(const Problem& p) {
  // A row-major n x k matrix is a column-major k x n matrix, so K-major B is passed as transposed. For A it
  // is the opposite.
  const ColumnMajor left{.type = p.b.type,
                         .rows = inner_extent(p.b, p.n, p.k),
                         .columns = outer_extent(p.b, p.n, p.k),
                         .ld = p.b.ld,
                         .batch_stride = p.b.batch_stride};
  const ColumnMajor right{.type = p.a.type,
                          .rows = inner_extent(p.a, p.m, p.k),
                          .columns = outer_extent(p.a, p.m, p.k),
                          .ld = p.a.ld,
                          .batch_stride = p.a.batch_stride};
  ColumnMajor d{
      .type = p.d.type, .rows = p.n, .columns = p.m, .ld = p.d.ld, .batch_stride = p.d.batch_stride};
  ColumnMajor c = d;
  if (is_fp8(p.d.type)) c.type = DType::bf16;  // C is never fp8
  if (p.epilogue.residual)
    c = {.type = p.epilogue.c_type,
         .rows = p.n,
         .columns = p.m,
         .ld = p.c.ld,
         .batch_stride = p.c.batch_stride};
  const CublasLtApi& api = lab_.cublaslt->api();
  SLUICE_TRY(make_layout(api, left, p.batch, left_));
  SLUICE_TRY(make_layout(api, right, p.batch, right_));
  SLUICE_TRY(make_layout(api, c, p.batch, c_));
  return make_layout(api, d, p.batch, d_);
}

Result<void> CublasLtProblem::copy_scales(int copy) const {
  if (scales_.empty()) return {};
  const ProblemData& data = copies_[static_cast<size_t>(copy)];
  return scales_[static_cast<size_t>(copy)].copy(data.problem(), data.args());
}

Result<void> CublasLtProblem::make_desc(const Problem& p, const ProblemData& data,
                                        cublasLtMatmulDesc_t& desc) {
  const CublasLtApi& api = lab_.cublaslt->api();
  const Epilogue& e = p.epilogue;
  const cublasStatus_t created = api.desc_create(&desc, CUBLAS_COMPUTE_32F, CUDA_R_32F);
  if (created != CUBLAS_STATUS_SUCCESS) return checked(api, created, "a matmul descriptor");
  DescWriter writer{api, desc};
  const int32_t op_left = p.b.major == Major::k ? CUBLAS_OP_T : CUBLAS_OP_N;
  const int32_t op_right = p.a.major == Major::k ? CUBLAS_OP_N : CUBLAS_OP_T;
  writer.set(CUBLASLT_MATMUL_DESC_TRANSA, op_left);
  writer.set(CUBLASLT_MATMUL_DESC_TRANSB, op_right);
  if (is_fp8(p.a.type)) {
    const int8_t fast = is_promoted(p) ? 0 : 1;
    writer.set(CUBLASLT_MATMUL_DESC_FAST_ACCUM, fast);
    // The scales of the newest copy.
    const void* scale_a = scales_.empty() ? data.args().scale_a : scales_.back().a();
    const void* scale_b = scales_.empty() ? data.args().scale_b : scales_.back().b();
    if (e.scale_b != ScaleMode::none) writer.set(CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, scale_b);
    if (e.scale_a != ScaleMode::none) writer.set(CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, scale_a);
    const int32_t right_mode = scale_mode_of(e.scale_a, CUBLASLT_MATMUL_MATRIX_SCALE_VEC128_32F);
    const int32_t left_mode =
        scale_mode_of(e.scale_b, scales_each_column(e) ? CUBLASLT_MATMUL_MATRIX_SCALE_VEC128_32F
                                                       : CUBLASLT_MATMUL_MATRIX_SCALE_BLK128x128_32F);
    writer.set(CUBLASLT_MATMUL_DESC_A_SCALE_MODE, left_mode);
    writer.set(CUBLASLT_MATMUL_DESC_B_SCALE_MODE, right_mode);
  }
  const uint32_t epilogue = epilogue_of(e);
  writer.set(CUBLASLT_MATMUL_DESC_EPILOGUE, epilogue);
  if (e.bias != Bias::none) {
    const int32_t bias_type = cuda_type(e.bias_type);
    writer.set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, data.args().bias);
    writer.set(CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, bias_type);
  }
  return checked(api, writer.status, "a descriptor attribute");
}

Result<void> CublasLtProblem::ask_heuristic() {
  const CublasLtApi& api = lab_.cublaslt->api();
  cublasLtMatmulPreference_t preference = nullptr;
  cublasStatus_t status = api.preference_create(&preference);
  if (status != CUBLAS_STATUS_SUCCESS) return checked(api, status, "a preference");
  const uint64_t workspace = static_cast<uint64_t>(kPeerWorkspaceBytes);
  status =
      api.preference_set(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &workspace, sizeof workspace);
  // The heuristic assumes operands that are aligned to 256 bytes, as check/verify_data.h allocates them.
  // Unaligned ones are reported here.
  const Problem& p = copies_[0].problem();
  const auto tell_alignment = [&](cublasLtMatmulPreferenceAttributes_t attribute, const Matrix& x) {
    const uint32_t bytes = static_cast<uint32_t>(bytes_of(x.type));
    if (status == CUBLAS_STATUS_SUCCESS && x.unaligned)
      status = api.preference_set(preference, attribute, &bytes, sizeof bytes);
  };
  // cuBLASLt computes the transpose, so its A is our B
  tell_alignment(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, p.b);
  tell_alignment(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, p.a);
  tell_alignment(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, p.d);
  std::vector<cublasLtMatmulHeuristicResult_t> results(static_cast<size_t>(lab_.method.heuristics));
  int count = 0;
  if (status == CUBLAS_STATUS_SUCCESS)
    status = api.heuristic(lab_.cublaslt->handle(), descs_[0], left_, right_, c_, d_, preference,
                           lab_.method.heuristics, results.data(), &count);
  api.preference_destroy(preference);
  if (status != CUBLAS_STATUS_SUCCESS) return checked(api, status, "the heuristic");
  for (int i = 0; i < count; ++i)
    if (results[static_cast<size_t>(i)].state == CUBLAS_STATUS_SUCCESS)
      found_.push_back(results[static_cast<size_t>(i)]);
  if (found_.empty()) return Error{ErrorCode::invalid_type, "cuBLASLt returned no algorithm"};
  return {};
}

std::string CublasLtProblem::algorithm_text(int algorithm) const {
  const auto read = [&](cublasLtMatmulAlgoConfigAttributes_t attribute) {
    uint32_t value = 0;  // the cluster shape attribute has 16 bits, so the upper half must be zero
    size_t written = 0;
    const size_t size = attribute == CUBLASLT_ALGO_CONFIG_CLUSTER_SHAPE_ID ? 2 : 4;
    lab_.cublaslt->api().algo_config(&found_[static_cast<size_t>(algorithm)].algo, attribute, &value, size,
                                     &written);
    return value;
  };
  return fmt::format("#{} algo {} tile {} stages {} cluster {} split {}", algorithm,
                     read(CUBLASLT_ALGO_CONFIG_ID), read(CUBLASLT_ALGO_CONFIG_TILE_ID),
                     read(CUBLASLT_ALGO_CONFIG_STAGES_ID), read(CUBLASLT_ALGO_CONFIG_CLUSTER_SHAPE_ID),
                     read(CUBLASLT_ALGO_CONFIG_SPLITK_NUM));
}

Result<void> CublasLtProblem::launch(int algorithm, int copy, Stream stream) const {
  return launch(algorithm, copy, copies_[static_cast<size_t>(copy)].args(), stream);
}

Result<void> CublasLtProblem::launch(int algorithm, int copy, const gemm::Args& args, Stream stream) const {
  const CublasLtApi& api = lab_.cublaslt->api();
  const Epilogue& e = copies_[0].problem().epilogue;
  const bool same_type = copies_[0].problem().d.type != DType::e4m3;
  const void* c = e.residual ? args.c : same_type ? args.d : nullptr;
  const float beta = adds(e) ? 1.0f : e.residual ? args.beta : 0.0f;  // D += A B is C = D with beta = 1
  const ContextScope scope(context_of(lab_.device));
  SLUICE_TRY(scope.entered());
  const cublasStatus_t status =
      api.matmul(lab_.cublaslt->handle(), descs_[static_cast<size_t>(copy)], &args.alpha, args.b, left_,
                 args.a, right_, &beta, c, c_, args.d, d_, &found_[static_cast<size_t>(algorithm)].algo,
                 lab_.peer_workspace.data(), static_cast<size_t>(lab_.peer_workspace.bytes()), stream);
  return checked(api, status, "cublasLtMatmul");
}

Contender cublaslt_contender(std::shared_ptr<const CublasLtProblem> problem, int algorithm,
                             const std::string& name) {
  return {.name = name,
          .detail = problem->algorithm_text(algorithm),
          .launch = [problem, algorithm](int copy,
                                         Stream stream) { return problem->launch(algorithm, copy, stream); },
          .refilled = [problem](int copy) { return problem->copy_scales(copy); },
          .activation_error = problem->caveat().empty() ? 0.0 : kTanhGeluError};
}

}  // namespace sluice::bench
