// SPDX-License-Identifier: Apache-2.0
// Kernels are timed in turn as in the bench (race.h), on the tuner's operands, dense or packed.
#include "lab/rows/rows.h"

#include <algorithm>
#include <chrono>
#include <random>
#include <set>

#include <sluice/quantiles.h>
#include <sluice/try.h>

#include "bench/device.h"
#include "bench/operands/store.h"
#include "bench/race.h"
#include "bench/shapes.h"

namespace sluice::lab {
namespace {

using Clock = std::chrono::steady_clock;

constexpr i64 kMostModelled = 512;  // values of m, 2 ms each
constexpr const char* kAlone = "alone";
constexpr const char* kFew = "range";

double us_since(Clock::time_point start) {
  return std::chrono::duration<double, std::micro>(Clock::now() - start).count();
}

/// Times the kernel chosen for one m and the kernel that serves the range. Returns "", or why it could not.
std::string race(const Lab& lab, Operands& operands, const std::vector<Plan>& plans, RowPoint& point) {
  std::vector<Entrant> entrants;
  std::vector<Result<Contender>> contenders = operands.prepare(plans);
  for (size_t i = 0; i < contenders.size(); ++i) {
    if (!contenders[i]) return contenders[i].error().message;
    const Result<Comparison> found = judged(operands, *contenders[i], plans[i]);
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

RowPoint measure_point(const Lab& lab, const Request& request, const gemm::RowTable& table,
                       OperandStore& store) {
  RowPoint point{.m = request.problem.m};
  const Result<Plan> alone = plan_of(request, lab.device.info(), lab.device.records());
  const Result<Plan> few = gemm::plan(table, point.m, lab.device.info());
  if (!alone || !few) {
    point.error = (alone ? few : alone).error().message;
    return point;
  }
  point.alone = short_name(alone->config), point.few = short_name(few->config);
  point.same = is_same(*alone, *few);
  if (point.same) return point;
  const Result<Operands*> open = store.open(alone->problem, scalars_of(request));
  point.error = open ? race(lab, **open, {*alone, *few}, point) : open.error().message;
  return point;
}

int kernels_made(const Device& device) {
  const CacheStats stats = device.impl().cache.stats();
  return stats.compiles + stats.disk_hits;
}

constexpr int kCallsInFlight = 16;  // few enough not to fill the launch queue, so that no call waits

FirstCalls time_first_calls(const Lab& lab, const Request& request, RowRange rows, OperandStore& store) {
  FirstCalls found;
  const auto fail = [&](const Error& error) {
    found.error = error.message;
    return found;
  };
  const Request most = with_rows(request, rows.high);
  const Result<Plan> plan = plan_of(most, lab.device.info(), lab.device.records());
  const Result<Operands*> operands =
      plan ? store.open(plan->problem, scalars_of(most)) : Result<Operands*>(plan.error());
  if (!operands) return fail(operands.error());
  if (Result<void> done = lab.stream.synchronize(); !done) return fail(done.error());
  const int before = kernels_made(lab.device);
  std::vector<double> times;
  for (i64 m = rows.low; m <= rows.high; ++m) {
    const Problem one = with_rows(request, m).problem;
    const Clock::time_point start = Clock::now();
    const Result<void> called = (*operands)->run(one, lab.stream.get());
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

Result<RowsModel> modelled(const Request& request, const gemm::RowTable& table, const RowRange& rows,
                           const DeviceInfo& device, const RecordBook& records) {
  RowsModel model{.worst_m = rows.low};
  std::set<std::string> kernels;
  const i64 step = 1 + (rows.high - rows.low) / kMostModelled;
  int count = 0;
  for (i64 m = rows.low; m <= rows.high; m += step, ++count) {
    SLUICE_TAKE(const Plan alone, plan_of(with_rows(request, m), device, records));
    SLUICE_TAKE(const Plan few, gemm::plan(table, m, device));
    kernels.insert(config_text(alone));
    const double us = alone.estimate.total_us;
    const double loss = us > 0 ? std::max(few.estimate.total_us / us - 1, 0.0) : 0;
    model.mean_loss += loss;
    if (loss > model.worst_loss) model.worst_loss = loss, model.worst_m = m;
  }
  model.mean_loss /= count;
  model.kernels_alone = static_cast<int>(kernels.size());
  return model;
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

RowsRecord measure_rows(const Lab& lab, const Problem& problem, const RowsMethod& method,
                        const bench::Phase& phase) {
  const Request request = request_of(problem);
  RowsRecord record{.name = name_of(with_rows(request, method.rows.high).problem)};
  phase("choosing and preparing kernels");
  const Clock::time_point start = Clock::now();
  const Result<RowSummary> ready = gemm::prepare(lab.device, problem, method.rows);
  record.prepare_s = 1e-6 * us_since(start);
  const Result<gemm::RowTable> table =
      ready ? gemm::plan_rows(problem, method.rows, lab.device.info(), lab.device.records())
            : Result<gemm::RowTable>(ready.error());
  const Result<RowsModel> model =
      table ? modelled(request, *table, method.rows, lab.device.info(), lab.device.records())
            : Result<RowsModel>(table.error());
  if (!model) {
    record.error = model.error().message;
    return record;
  }
  record.summary = *ready;
  record.model = *model;
  phase("first calls");
  OperandStore store(lab, kCheckedElements);
  record.first_calls = time_first_calls(lab, request, method.rows, store);
  std::vector<i64> drawn = drawn_rows(method);
  const bool worst_is_drawn = std::find(drawn.begin(), drawn.end(), model->worst_m) != drawn.end();
  if (!worst_is_drawn) drawn.push_back(model->worst_m);
  for (size_t i = 0; i < drawn.size(); ++i) {
    phase("timing " + std::to_string(drawn[i]) + " rows");
    record.points.push_back(measure_point(lab, with_rows(request, drawn[i]), *table, store));
    record.points.back().drawn = worst_is_drawn || i + 1 < drawn.size();
  }
  return record;
}

}  // namespace sluice::lab
