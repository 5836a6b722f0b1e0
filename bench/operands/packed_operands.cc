// SPDX-License-Identifier: Apache-2.0
// source_ holds the shared data: one blob per set, and tokens with their sums on the host. A set is a blob of
// source_ with its own X and D.
#include "bench/operands/packed_operands.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include <sluice/bench/record.h>
#include <sluice/plan/dense/problem_checks.h>
#include <sluice/plan/packed/packed_problem_checks.h>
#include <sluice/plan/records/record.h>
#include <sluice/run/driver/memory.h>
#include <sluice/run/ops/problem_key.h>
#include <sluice/try.h>

namespace sluice::bench {
namespace {

constexpr int kL2Multiple = 3;
constexpr u8 kPoison = 0xFF;
constexpr float kScaleD = 0.75f;

/// Number of operand sets of `set_bytes` each that together exceed L2 three times; at most `most`.
int sets_for(const Lab& lab, i64 set_bytes, int most) {
  if (!lab.method.cold) return 1;
  const i64 wanted = ceil_div(kL2Multiple * lab.device.info().l2_bytes, std::max<i64>(set_bytes, 1));
  return static_cast<int>(std::clamp<i64>(wanted, 2, std::max(most, 2)));
}

/// The problem whose random data is reused for every number of tokens. It has at most `most_tokens` tokens.
Problem source_of(Problem p, i64 most_tokens) {
  p.m = std::min(most_tokens, kDistinctTokens);
  p.d.type = DType::bf16;
  p.epilogue.activation = Activation::none;
  // Without padded halves, gated weights have the same bytes as plain ones.
  p.epilogue.gated = p.epilogue.gated && pads_halves(p.n);
  if (p.epilogue.gated && is_16bit(p.a.type)) p.m = std::min(p.m, packed::kMaxGatedTokens);
  p.epilogue.scale_d = ScaleMode::none;
  p.norm_a = p.epilogue.residual = false;
  p.a.ld = p.k;
  p.b.ld = p.c.ld = 0;
  p.d.ld = p.n;
  for (Matrix* x : {&p.a, &p.b, &p.c, &p.d}) x->batch_stride = 0;
  return key_of(p);
}

i64 x_bytes(const Problem& p) {
  return ((p.m - 1) * p.a.ld + p.k) * bytes_of(p.a.type);
}

/// True if element k of gamma is negative. The test's tokens get the same sign, so that their product with
/// gamma is that of the source data, whose sums are known.
bool is_negative_gamma(i64 k) {
  return (k * 2654435761 >> 7) % 3 == 0;
}

/// Returns p.m rows, copied from the rows of `source` in turn, with NaN in the gap between rows.
std::vector<u8> tokens_for(const Problem& p, const packed::HostData& source) {
  std::vector<u8> x(static_cast<size_t>(x_bytes(p)), kPoison);
  const size_t row_bytes = static_cast<size_t>(p.k * bytes_of(p.a.type));
  const size_t pitch = static_cast<size_t>(p.a.ld * bytes_of(p.a.type));
  for (i64 row = 0; row < p.m; ++row)
    std::memcpy(x.data() + static_cast<size_t>(row) * pitch,
                source.x.data() + static_cast<size_t>(row % kDistinctTokens) * row_bytes, row_bytes);
  constexpr u8 kSign = 0x80;
  for (i64 row = 0; row < p.m && p.norm_a; ++row)
    for (i64 k = 0; k < p.k; ++k)
      if (is_negative_gamma(k)) x[static_cast<size_t>(row) * pitch + static_cast<size_t>(2 * k + 1)] ^= kSign;
  return x;
}

/// Returns the rows of C that belong to these tokens, without gaps.
std::vector<u8> rows_of(const std::vector<u8>& c, const Problem& p, const std::vector<i64>& tokens) {
  std::vector<u8> rows;
  for (const i64 token : tokens) {
    const auto row = c.begin() + token * p.c.ld * bytes_of(p.d.type);
    rows.insert(rows.end(), row, row + p.n * bytes_of(p.d.type));
  }
  return rows;
}

}  // namespace

std::vector<i64> checked_tokens(i64 m, i64 n, i64 elements) {
  const i64 count = std::min(m, std::max(elements / std::max<i64>(n, 1), kLeastTokens));
  std::vector<i64> tokens;
  for (i64 i = 0; i < count; ++i) tokens.push_back(count == m ? i : i * (m - 1) / (count - 1));
  return tokens;
}

Result<void> PackedOperands::open(const Problem& problem) {
  close();
  SLUICE_TAKE(const Problem checked, check_problem(problem));
  problem_ = checked;
  SLUICE_TRY(open_source());
  const bool all = checks_all() || problem_.norm_a;  // with a norm there are few tokens, so all are checked
  tokens_ = checked_tokens(problem_.m, problem_.n, all ? kAllElements : checked_elements_);
  sums_.clear();
  for (const i64 token : tokens_) {
    const auto row = source_->sums().begin() + token % kDistinctTokens * problem_.n;
    sums_.insert(sums_.end(), row, row + problem_.n);
  }
  SLUICE_TRY(open_scales());
  SLUICE_TRY(open_exact());
  return open_sets();
}

Result<void> PackedOperands::open_exact() {
  const Problem wanted = packed::small_problem(problem_);
  if (exact_ && exact_->problem() == wanted) return {};
  exact_.reset();
  SLUICE_TAKE(packed::HostData host, packed::random_data(wanted, packed::DataKind::exact, lab_.method.seed));
  SLUICE_TAKE(packed::DeviceData made, packed::DeviceData::create(lab_.device, std::move(host)));
  exact_ = std::move(made);
  return {};
}

Result<void> PackedOperands::open_source() {
  const Problem wanted = source_of(problem_, checks_all() ? problem_.m : kDistinctTokens);
  if (source_ && source_->problem() == wanted) return {};
  source_.reset();
  SLUICE_TAKE(packed::HostData host, packed::random_data(wanted, packed::DataKind::real, lab_.method.seed));
  const i64 blob = blob_bytes(wanted);
  SLUICE_TAKE(packed::DeviceData made,
              packed::DeviceData::create(lab_.device, std::move(host), sets_for(lab_, blob, kMostCopies)));
  source_ = std::move(made);
  return {};
}

Result<void> PackedOperands::open_sets() {
  const i64 blob = blob_bytes(problem_);
  const i64 d_bytes = packed::d_buffer_bytes(problem_, 0);
  const std::vector<u8> x = tokens_for(problem_, source_->host());
  const i64 bytes = static_cast<i64>(x.size());
  for (int i = sets_for(lab_, blob + bytes + d_bytes, source_->copies()); i > 0; --i) {
    SLUICE_TAKE(DeviceBuffer tokens, DeviceBuffer::allocate(lab_.device, bytes));
    SLUICE_TAKE(DeviceBuffer d, DeviceBuffer::allocate(lab_.device, d_bytes));
    SLUICE_TRY(tokens.upload(x.data(), bytes));
    SLUICE_TRY(d.fill(kPoison, lab_.stream.get()));
    sets_.push_back({std::move(tokens), std::move(d)});
  }
  return lab_.stream.synchronize();
}

gemm::Args PackedOperands::args(int copy) const {
  const Set& set = sets_[static_cast<size_t>(copy)];
  const gemm::Args shared = source_->args(copy);
  return {.a = set.x.data(),
          .b = shared.b,
          .c = c_.data(),
          .d = static_cast<u8*>(set.d.data()) + packed::d_begin(problem_, 0),
          .scale_a = static_cast<const float*>(scale_x_.data()),
          .scale_d = problem_.epilogue.scale_d == ScaleMode::none
                         ? nullptr
                         : static_cast<const float*>(scale_d_.data()),
          .bias = shared.bias,
          .gamma = gamma_.data()};
}

/// Returns the scales of these tokens: none, one for all, or one per token.
std::vector<u8> PackedOperands::scales_of(const std::vector<i64>& tokens) const {
  const std::vector<u8>& all = source_->host().scale_x;
  if (problem_.epilogue.scale_a != ScaleMode::vector) return all;
  std::vector<u8> scales;
  for (const i64 token : tokens) {
    const auto scale = all.begin() + token % kDistinctTokens * bytes_of(DType::fp32);
    scales.insert(scales.end(), scale, scale + bytes_of(DType::fp32));
  }
  return scales;
}

Result<void> PackedOperands::open_scales() {
  std::vector<i64> tokens(static_cast<size_t>(problem_.m));
  std::iota(tokens.begin(), tokens.end(), i64{0});
  const std::vector<u8> scales = scales_of(tokens);
  const i64 bytes = static_cast<i64>(scales.size());
  SLUICE_TAKE(DeviceBuffer buffer, DeviceBuffer::allocate(lab_.device, bytes));
  scale_x_ = std::move(buffer);
  SLUICE_TAKE(DeviceBuffer scale_d, DeviceBuffer::allocate(lab_.device, sizeof kScaleD));
  scale_d_ = std::move(scale_d);
  SLUICE_TRY(scale_d_.upload(&kScaleD, sizeof kScaleD));
  SLUICE_TRY(open_norm_and_residual());
  return bytes > 0 ? scale_x_.upload(scales.data(), bytes) : Result<void>();
}

Result<void> PackedOperands::open_norm_and_residual() {
  constexpr u16 kOne = 0x3F80, kMinusOne = 0xBF80;  // bf16
  std::vector<u16> gamma(static_cast<size_t>(problem_.norm_a ? problem_.k : 0));
  for (size_t k = 0; k < gamma.size(); ++k)
    gamma[k] = is_negative_gamma(static_cast<i64>(k)) ? kMinusOne : kOne;
  const std::vector<u8> c = problem_.epilogue.residual
                                ? packed::random_residual(problem_, packed::DataKind::real, lab_.method.seed)
                                : std::vector<u8>();
  residual_ = problem_.epilogue.residual ? rows_of(c, problem_, tokens_) : c;
  roots_ = problem_.norm_a
               ? packed::roots_of(problem_, tokens_for(problem_, source_->host()), gemm::Args{}.epsilon)
               : std::vector<double>();
  const struct {
    const void* from;
    size_t bytes;
    DeviceBuffer& to;
  } arrays[] = {{gamma.data(), gamma.size() * sizeof(u16), gamma_}, {c.data(), c.size(), c_}};
  for (const auto& [from, bytes, to] : arrays) {
    SLUICE_TAKE(DeviceBuffer buffer, DeviceBuffer::allocate(lab_.device, static_cast<i64>(bytes)));
    to = std::move(buffer);
    if (bytes == 0) continue;
    SLUICE_TRY(to.upload(from, static_cast<i64>(bytes)));
  }
  return {};
}

std::vector<const void*> PackedOperands::weights() const {
  std::vector<const void*> all;
  for (int copy = 0; copy < copies(); ++copy) all.push_back(source_->args(copy).b);
  return all;
}

std::vector<Result<Contender>> PackedOperands::prepare(std::span<const Plan> plans) {
  return contenders_of(lab_.device, plans, [this](const gemm::Kernel& kernel) {
    return Contender{.name = kSluice,
                     .detail = short_name(kernel.plan().config),
                     .launch = [this, kernel](int copy, Stream stream) {
                       return gemm::launch(kernel, args(copy), stream);
                     }};
  });
}

/// Downloads the checked tokens as adjacent rows, with D's guard bytes before and after them.
Result<std::vector<u8>> PackedOperands::read_sample() const {
  const DeviceBuffer& d = sets_[0].d;
  const i64 row_bytes = d_columns(problem_) * bytes_of(problem_.d.type), begin = packed::d_begin(problem_, 0);
  const i64 rows = static_cast<i64>(tokens_.size());
  std::vector<u8> bytes(static_cast<size_t>(begin + rows * row_bytes + kGuardBytes), kPoison);
  const auto read = [&](i64 to, i64 count, i64 from) { return d.download(bytes.data() + to, count, from); };
  Result<void> done = read(0, begin, 0);
  if (done) done = read(begin + rows * row_bytes, kGuardBytes, d.bytes() - kGuardBytes);
  for (i64 i = 0; i < rows && done; ++i) {
    const i64 token = tokens_[static_cast<size_t>(i)];
    done = read(begin + i * row_bytes, row_bytes, begin + token * problem_.d.ld * bytes_of(problem_.d.type));
  }
  if (!done) return done.error();
  return bytes;
}

Result<Comparison> PackedOperands::check_exact(const Plan& plan) {
  return packed::check_config(lab_.device, *exact_, plan.config, lab_.stream.get());
}

Result<void> PackedOperands::run(const Problem& problem, Stream stream) const {
  return gemm::run(lab_.device, problem, args(0), stream);
}

Result<Comparison> PackedOperands::check(const Contender& contender, const Plan& plan) {
  const Stream stream = lab_.stream.get();
  SLUICE_TRY(sets_[0].d.fill(kPoison, stream));
  SLUICE_TRY(contender.launch(0, stream));
  SLUICE_TRY(lab_.stream.synchronize());
  SLUICE_TAKE(const std::vector<u8> d, read_sample());
  packed::HostData looked_at{.problem = problem_,
                             .kind = packed::DataKind::real,
                             .bias = source_->host().bias,
                             .scale_x = scales_of(tokens_),
                             .c = residual_,
                             .roots = roots_};
  looked_at.problem.m = static_cast<i64>(tokens_.size());
  looked_at.problem.d.ld = d_columns(problem_);
  looked_at.problem.c.ld = problem_.epilogue.residual ? problem_.n : 0;
  if (problem_.epilogue.scale_d != ScaleMode::none) {
    looked_at.scale_d.resize(sizeof kScaleD);
    std::memcpy(looked_at.scale_d.data(), &kScaleD, sizeof kScaleD);
  }
  Comparison found = packed::judge(looked_at, sums_, d, 0, packed::rounding_of(plan.config));
  if (!checks_all()) return found;
  SLUICE_TAKE(const bool changed, inputs_changed());
  found.damaged_chunks += changed;
  return found;
}

/// True if a kernel changed the inputs of operand set 0.
Result<bool> PackedOperands::inputs_changed() const {
  const std::vector<u8> x = tokens_for(problem_, source_->host());
  std::vector<u8> now(x.size());
  if (!x.empty()) SLUICE_TRY(sets_[0].x.download(now.data(), static_cast<i64>(now.size())));
  SLUICE_TAKE(const std::string others, source_->changed_inputs());
  return now != x || !others.empty();
}

}  // namespace sluice::bench
