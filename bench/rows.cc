// SPDX-License-Identifier: Apache-2.0
// Kernels are raced as in every bench (race.h), on the tuner's operands, which are of either kind of product.
#include "bench/rows.h"

#include <algorithm>
#include <chrono>
#include <random>

#include <sluice/host/device/device_impl.h>

#include "bench/race.h"
#include "bench/tune/gpu.h"

namespace sluice::bench {
namespace {

using Clock = std::chrono::steady_clock;
using AnyTable = std::variant<gemm::RowTable, packed::RowTable>;

constexpr const char* kAlone = "alone";
constexpr const char* kFew = "range";

double us_since(Clock::time_point start) {
  return std::chrono::duration<double, std::micro>(Clock::now() - start).count();
}

AnyProblem of_rows(AnyProblem problem, i64 m) {
  std::visit([&](auto& p) { p.m = m; }, problem);
  return problem;
}

Result<AnyTable> any(Result<gemm::RowTable> table) {
  if (!table) return table.error();
  return AnyTable(*std::move(table));
}
Result<AnyTable> any(Result<packed::RowTable> table) {
  if (!table) return table.error();
  return AnyTable(*std::move(table));
}
Result<AnyPlan> any(Result<Plan> plan) {
  if (!plan) return plan.error();
  return AnyPlan(*std::move(plan));
}
Result<AnyPlan> any(Result<packed::Plan> plan) {
  if (!plan) return plan.error();
  return AnyPlan(*std::move(plan));
}

Result<AnyTable> table_of(const Device& device, const AnyProblem& problem, RowRange rows) {
  if (const auto* dense = std::get_if<Problem>(&problem))
    return any(gemm::plan_rows(*dense, rows, device.info(), device.records()));
  return any(packed::plan_rows(std::get<PackedProblem>(problem), rows, device.info(), device.records()));
}
Result<AnyPlan> plan_from(const AnyTable& table, i64 m, const DeviceInfo& info) {
  if (const auto* dense = std::get_if<gemm::RowTable>(&table)) return any(gemm::plan(*dense, m, info));
  return any(packed::plan(std::get<packed::RowTable>(table), m, info));
}
Result<AnyPlan> plan_alone(const Device& device, const AnyProblem& problem) {
  if (const auto* dense = std::get_if<Problem>(&problem))
    return any(gemm::plan(*dense, device.info(), {}, device.records()));
  return any(packed::plan(std::get<PackedProblem>(problem), device.info(), {}, device.records()));
}

/// One product at a time, on the operands of its kind.
class Operands {
 public:
  explicit Operands(const Lab& lab) : dense_(lab), packed_(lab) {}

  Result<TuneOperands*> open(const AnyProblem& problem) {
    dense_.close();
    packed_.close();
    if (const auto* dense = std::get_if<Problem>(&problem)) {
      if (Result<void> opened = dense_.open(*dense); !opened) return opened.error();
      return &dense_;
    }
    if (Result<void> opened = packed_.open(std::get<PackedProblem>(problem)); !opened) return opened.error();
    return &packed_;
  }

 private:
  DenseOperands dense_;
  PackedOperands packed_;
};

/// Times both; "" or why not.
std::string race(const Lab& lab, TuneOperands& operands, const std::vector<AnyPlan>& plans, RowPoint& point) {
  std::vector<Entrant> entrants;
  std::vector<Result<Contender>> contenders = operands.prepare(plans);
  for (size_t i = 0; i < contenders.size(); ++i) {
    if (!contenders[i]) return contenders[i].error().message;
    const Result<Comparison> found = operands.check(*contenders[i], plans[i]);
    if (!found) return found.error().message;
    if (!found->passed()) return contenders[i]->detail + ": " + describe(*found);
    contenders[i]->name = i == 0 ? kAlone : kFew;
    entrants.push_back(entrant_of(*std::move(contenders[i])));
  }
  point.verified = true;
  time_entrants(lab, {&entrants[0], &entrants[1]},
                {.copies = operands.copies(),
                 .replay_us = lab.method.replay_us,
                 .rounds = {.count = lab.method.rounds, .rest_ms = lab.method.rest_ms}});
  for (const Entrant& entrant : entrants)
    if (!entrant.record.error.empty()) return entrant.record.error;
  point.alone_us = entrants[0].record.us, point.alone_rounds = entrants[0].record.rounds;
  point.few_us = entrants[1].record.us, point.few_rounds = entrants[1].record.rounds;
  return {};
}

RowPoint measure_point(const Lab& lab, const AnyProblem& problem, const AnyTable& table, Operands& operands) {
  RowPoint point{.m = std::visit([](const auto& p) { return p.m; }, problem)};
  const Result<AnyPlan> alone = plan_alone(lab.device, problem);
  const Result<AnyPlan> few = plan_from(table, point.m, lab.device.info());
  if (!alone || !few) {
    point.error = (alone ? few : alone).error().message;
    return point;
  }
  point.alone = short_name(*alone), point.few = short_name(*few);
  point.same = is_same(*alone, *few);
  if (point.same) return point;
  const Result<TuneOperands*> open = operands.open(problem_of(*alone));
  point.error = open ? race(lab, **open, {*alone, *few}, point) : open.error().message;
  return point;
}

/// Launches of any m of the range: the memory is that of the most rows.
class Calls {
 public:
  static Result<Calls> create(const Lab& lab, const AnyProblem& most) {
    Calls calls(lab);
    if (const auto* dense = std::get_if<Problem>(&most)) {
      Result<ProblemData> data = lab.verifier.make_data(with_strides(*dense), {.seed = 1}, lab.stream.get());
      if (!data) return data.error();
      calls.dense_ = *std::move(data);
      return calls;
    }
    const PackedProblem& p = std::get<PackedProblem>(most);
    const i64 sizes[] = {p.m * std::max(p.ld_x, p.k) * bytes_of(p.x),
                         blob_bytes(p.weights, p.n, p.k),
                         p.m * std::max(p.ld_d, p.n) * bytes_of(p.d),
                         p.n * bytes_of(DType::fp32),
                         p.m * bytes_of(DType::fp32),
                         bytes_of(DType::fp32)};
    for (const i64 size : sizes) {
      Result<DeviceBuffer> buffer = DeviceBuffer::allocate(lab.device, size);
      if (!buffer) return buffer.error();
      if (Result<void> zeroed = buffer->fill(0, lab.stream.get()); !zeroed) return zeroed.error();
      calls.buffers_.push_back(*std::move(buffer));
    }
    return calls;
  }

  Result<void> run(const AnyProblem& problem) const {
    const Stream stream = lab_->stream.get();
    if (const auto* dense = std::get_if<Problem>(&problem)) {
      gemm::Args args = dense_->args();
      args.workspace = lab_->workspace.view();
      return gemm::run(lab_->device, *dense, args, stream);
    }
    const PackedProblem& p = std::get<PackedProblem>(problem);
    packed::Args args{.x = buffers_[0].data(), .weights = buffers_[1].data(), .d = buffers_[2].data()};
    if (p.bias != Bias::none) args.bias = buffers_[3].data();
    if (p.scale_x != ScaleMode::none) args.scale_x = static_cast<const float*>(buffers_[4].data());
    if (p.scale_d != ScaleMode::none) args.scale_d = static_cast<const float*>(buffers_[5].data());
    return packed::run(lab_->device, p, args, stream);
  }

 private:
  explicit Calls(const Lab& lab) : lab_(&lab) {}
  const Lab* lab_;
  std::optional<ProblemData> dense_;
  std::vector<DeviceBuffer> buffers_;
};

int kernels_made(const Device& device) {
  const CacheStats stats = device.impl().cache.stats();
  return stats.compiles + stats.disk_hits;
}

constexpr int kCallsInFlight = 16;  // a full queue would be waited for

FirstCalls time_first_calls(const Lab& lab, const AnyProblem& problem, RowRange rows) {
  FirstCalls found;
  const auto fail = [&](const Error& error) {
    found.error = error.message;
    return found;
  };
  const Result<Calls> calls = Calls::create(lab, of_rows(problem, rows.high));
  if (!calls) return fail(calls.error());
  if (Result<void> done = lab.stream.synchronize(); !done) return fail(done.error());
  const int before = kernels_made(lab.device);
  std::vector<double> times;
  for (i64 m = rows.low; m <= rows.high; ++m) {
    const AnyProblem one = of_rows(problem, m);
    const Clock::time_point start = Clock::now();
    const Result<void> called = calls->run(one);
    times.push_back(us_since(start));
    if (!called) return fail(called.error());
    if (times.back() > found.worst_us) found.worst_us = times.back(), found.worst_m = m;
    if (++found.calls % kCallsInFlight == 0)
      if (Result<void> done = lab.stream.synchronize(); !done) return fail(done.error());
  }
  if (Result<void> done = lab.stream.synchronize(); !done) return fail(done.error());
  found.median_us = quantile(times, 0.5);
  found.kernels_made = kernels_made(lab.device) - before;
  return found;
}

}  // namespace

std::vector<i64> drawn_rows(const RowsMethod& method) {
  const i64 count = method.rows.high - method.rows.low + 1, parts = std::min<i64>(method.numbers, count);
  std::mt19937_64 random(method.seed);
  std::vector<i64> drawn;
  for (i64 i = 0; i < parts; ++i) {
    const i64 begin = count * i / parts, end = count * (i + 1) / parts;
    drawn.push_back(method.rows.low + begin + static_cast<i64>(random() % static_cast<u64>(end - begin)));
  }
  return drawn;
}

double RowsRecord::mean_loss() const {
  double sum = 0;
  int count = 0;
  for (const RowPoint& point : points)
    if (point.drawn && point.error.empty()) sum += point.loss(), ++count;
  return count > 0 ? sum / count : 0;
}

double RowsRecord::worst_loss() const {
  double worst = 0;
  for (const RowPoint& point : points)
    if (point.error.empty()) worst = std::max(worst, point.loss());
  return worst;
}

bool RowsRecord::all_right() const {
  return error.empty() && first_calls.error.empty() && first_calls.kernels_made == 0 &&
         std::all_of(points.begin(), points.end(), [](const RowPoint& point) { return point.error.empty(); });
}

RowsRecord measure_rows(const Lab& lab, const AnyProblem& problem, const RowsMethod& method,
                        const Phase& phase) {
  RowsRecord record{.name = name_of(of_rows(problem, method.rows.high))};
  phase("choosing and preparing kernels");
  const Clock::time_point start = Clock::now();
  const Result<RowSummary> ready = std::visit(
      [&](const auto& p) -> Result<RowSummary> {
        if constexpr (std::is_same_v<std::decay_t<decltype(p)>, Problem>)
          return gemm::prepare(lab.device, p, method.rows);
        else
          return packed::prepare(lab.device, p, method.rows);
      },
      problem);
  record.prepare_s = 1e-6 * us_since(start);
  const Result<AnyTable> table =
      ready ? table_of(lab.device, problem, method.rows) : Result<AnyTable>(ready.error());
  if (!table) {
    record.error = table.error().message;
    return record;
  }
  record.summary = *ready;
  phase("first calls");
  record.first_calls = time_first_calls(lab, problem, method.rows);
  std::vector<i64> drawn = drawn_rows(method);
  const bool worst_is_drawn = std::find(drawn.begin(), drawn.end(), ready->worst_m) != drawn.end();
  if (!worst_is_drawn) drawn.push_back(ready->worst_m);
  Operands operands(lab);
  for (size_t i = 0; i < drawn.size(); ++i) {
    phase("timing " + std::to_string(drawn[i]) + " rows");
    record.points.push_back(measure_point(lab, of_rows(problem, drawn[i]), *table, operands));
    record.points.back().drawn = worst_is_drawn || i + 1 < drawn.size();
  }
  return record;
}

}  // namespace sluice::bench
