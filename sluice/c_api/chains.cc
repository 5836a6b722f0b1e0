// SPDX-License-Identifier: Apache-2.0
// Chains in the C interface. A step is checked and read when it is added, as the call that it stands for
// would be, so that its arrays need not outlive the call.
#include <string>
#include <vector>

#include <sluice/c_chain.h>

#include <sluice/c_api/call.h>
#include <sluice/c_api/companions.h>
#include <sluice/c_api/error.h>
#include <sluice/c_api/experts.h>
#include <sluice/c_api/handles.h>
#include <sluice/chain.h>
#include <sluice/run/ops/gemm.h>
#include <sluice/try.h>

using namespace sluice;
using namespace sluice::c_api;

struct sluice_steps {
  std::vector<ChainStep> steps;
  std::vector<int> memories;  // the GPU that holds a step's arrays; kOnHost for a gap
};

struct sluice_chain {
  Chain chain;
  Workspace workspace;
  std::string text;
};

namespace {

static_assert(SLUICE_CHAIN_TUNED == static_cast<int>(ChainOverlap::tuned));
static_assert(SLUICE_WEIGHTS_FIRST == static_cast<int>(ChainOverlap::weights_first));

Error on_host(const char* name) {
  return {ErrorCode::wrong_device,
          std::string(name) + " is in host memory, and a chain runs on a GPU: move the step's arrays there"};
}

sluice_status add(sluice_steps* steps, int memory, const char* first, const ChainStep& step) {
  if (memory == kOnHost) return fail(on_host(first));
  steps->steps.push_back(step);
  steps->memories.push_back(memory);
  return SLUICE_OK;
}

/// Adds the step that `step` makes of a call which `check` accepts. `first`: the name of its first array.
template <class What, class Check, class Step>
sluice_status add_checked(sluice_steps* steps, const What* what, const Check& check, const char* first,
                          const Step& step) {
  if (steps == nullptr || what == nullptr) return fail(null_argument(steps == nullptr ? "steps" : "what"));
  const auto call = check(*what);
  return call ? add(steps, call->memory, first, step(*call)) : fail(call.error());
}

Error lends_none() {
  return {ErrorCode::invalid_argument,
          "workspace is given, and a chain has one workspace for all steps: leave it NULL"};
}

Result<ChainStep> step_of(const sluice_gap& gap) {
  const Enumerator flags[] = {{"waits", gap.waits, 2}, {"triggers", gap.triggers, 2}};
  SLUICE_TRY(check_enumerators(flags));
  if (gap.nodes < 1)
    return Error{ErrorCode::invalid_argument, "nodes = " + std::to_string(gap.nodes) +
                                                  " must be 1 or more: a gap has at least one launch"};
  if (gap.write_count < -1 || (gap.write_count > 0 && gap.writes == nullptr))
    return Error{ErrorCode::invalid_argument,
                 "write_count = " + std::to_string(gap.write_count) +
                     " must be the number of ranges in `writes`, or -1 if the gap may write any memory"};
  ForeignStep made{.nodes = gap.nodes,
                   .programmatic_edges = gap.programmatic_edges,
                   .waits = gap.waits != 0,
                   .overlapped = gap.triggers != 0,
                   .stand_in_us = gap.stand_in_us};
  for (int i = 0; i < gap.write_count; ++i) {
    const sluice_range& range = gap.writes[i];
    if (range.bytes < 0 || (range.bytes > 0 && range.data == nullptr))
      return Error{ErrorCode::invalid_argument, "writes[" + std::to_string(i) + "] has " +
                                                    std::to_string(range.bytes) + " bytes at " +
                                                    (range.data == nullptr ? "NULL" : "an address") +
                                                    ": a range has an address and 0 bytes or more"};
    made.writes.push_back({range.data, range.bytes});
  }
  if (gap.write_count == 0) made.writes.push_back({});
  return ChainStep{.work = made, .name = "gap"};
}

Result<Chain> chain_of(const Device& device, const sluice_steps& steps, const sluice_chain_options& given) {
  const Enumerator enumerators[] = {{"overlap", given.overlap, SLUICE_CHAIN_TUNED + 1},
                                    {"search", given.search, SLUICE_TUNE + 1},
                                    {"keep", given.keep, 2}};
  SLUICE_TRY(check_enumerators(enumerators));
  for (size_t i = 0; i < steps.steps.size(); ++i)
    if (const int memory = steps.memories[i]; memory != kOnHost && memory != device.ordinal())
      return Error{ErrorCode::wrong_device,
                   "step " + std::to_string(i) + " (" + steps.steps[i].name + "): its arrays are on " +
                       place_text(memory) + " and the chain is to run on " + place_text(device.ordinal())};
  const ChainOptions options{.overlap = static_cast<ChainOverlap>(given.overlap)};
  switch (given.search) {
    case SLUICE_GUARDED: return Chain::guarded(device, steps.steps, options);
    case SLUICE_TUNE:
      return Chain::tune(device, steps.steps,
                         {.seconds = given.seconds, .start = options, .keep = given.keep != 0});
    default: return Chain::prepare(device, steps.steps, options);
  }
}

}  // namespace

extern "C" {

sluice_status sluice_steps_create(sluice_steps** steps) {
  return guarded([&] {
    if (steps == nullptr) return fail(null_argument("steps"));
    *steps = new sluice_steps;
    return SLUICE_OK;
  });
}

void sluice_steps_free(sluice_steps* steps) {
  delete steps;
}

int32_t sluice_steps_count(const sluice_steps* steps) {
  return steps != nullptr ? static_cast<int32_t>(steps->steps.size()) : 0;
}

sluice_status sluice_steps_add_product(sluice_steps* steps, const sluice_call* call) {
  return guarded([&] {
    if (steps == nullptr) return fail(null_argument("steps"));
    if (const Result<void> checked = check_call(call); !checked) return fail(checked.error());
    if (call->workspace != nullptr) return fail(lends_none());
    Result<Call> made = checked_call(*call);
    if (!made) return fail(made.error());
    made->args.names = nullptr;  // the caller's, who may free them
    const ProductStep step{.problem = made->problem, .args = made->args};
    return add(steps, made->memory, named(*call, SLUICE_A).name().c_str(), {.work = step, .name = "product"});
  });
}

sluice_status sluice_steps_add_norm(sluice_steps* steps, const sluice_normalization* what) {
  return guarded([&] {
    return add_checked(steps, what, normalization_of, "input", [](const NormCall& call) -> ChainStep {
      return {.work = NormStep{call.options, call.shape, call.args}, .name = "norm"};
    });
  });
}

sluice_status sluice_steps_add_quantizer(sluice_steps* steps, const sluice_quantization* what) {
  return guarded([&] {
    if (steps == nullptr || what == nullptr) return fail(null_argument(steps == nullptr ? "steps" : "what"));
    if (what->workspace != nullptr) return fail(lends_none());
    const Result<QuantizeCall> call = quantization_of(*what);
    if (!call) return fail(call.error());
    return add(steps, call->memory, "input",
               {.work = QuantizerStep{call->input, call->granularity, call->gate, call->shape, call->args},
                .name = "quantize"});
  });
}

sluice_status sluice_steps_add_route(sluice_steps* steps, const sluice_routing* what) {
  return guarded([&] {
    return add_checked(steps, what, routing_of, "ids", [](const RouteCall& call) -> ChainStep {
      return {.work = route_step(call.options, call.shape, call.args), .name = "route"};
    });
  });
}

sluice_status sluice_steps_add_gather(sluice_steps* steps, const sluice_gathering* what) {
  return guarded([&] {
    return add_checked(steps, what, gathering_of, "input", [](const QuantizeCall& call) -> ChainStep {
      return {.work = QuantizerStep{call.input, call.granularity, call.gate, call.shape, call.args, true},
              .name = "gather"};
    });
  });
}

sluice_status sluice_steps_add_combine(sluice_steps* steps, const sluice_combining* what) {
  return guarded([&] {
    return add_checked(steps, what, combining_of, "y", [](const CombineCall& call) -> ChainStep {
      return {.work = combine_step(call.options, call.shape, call.args), .name = "combine"};
    });
  });
}

sluice_status sluice_steps_add_gap(sluice_steps* steps, const sluice_gap* gap) {
  return guarded([&] {
    if (steps == nullptr || gap == nullptr) return fail(null_argument(steps == nullptr ? "steps" : "gap"));
    const Result<ChainStep> step = step_of(*gap);
    if (!step) return fail(step.error());
    steps->steps.push_back(*step);
    steps->memories.push_back(kOnHost);
    return SLUICE_OK;
  });
}

sluice_status sluice_steps_name(sluice_steps* steps, const char* name) {
  return guarded([&] {
    if (steps == nullptr || name == nullptr) return fail(null_argument(steps == nullptr ? "steps" : "name"));
    if (steps->steps.empty())
      return fail({ErrorCode::invalid_argument, "there is no step to name: add one first"});
    steps->steps.back().name = name;
    return SLUICE_OK;
  });
}

sluice_status sluice_chain_create(const sluice_device* device, const sluice_steps* steps,
                                  const sluice_chain_options* options, sluice_chain** chain) {
  return guarded([&] {
    if (device == nullptr || steps == nullptr)
      return fail(null_argument(device == nullptr ? "device" : "steps"));
    if (options == nullptr || chain == nullptr)
      return fail(null_argument(options == nullptr ? "options" : "chain"));
    const Device& on = device->session.device();
    const Result<Chain> made = chain_of(on, *steps, *options);
    if (!made) return fail(made.error());
    Result<Workspace> workspace = Workspace::create(on, made->workspace_bytes());
    if (!workspace) return fail(workspace.error());
    *chain = new sluice_chain{*made, *std::move(workspace), explain(made->plan())};
    return SLUICE_OK;
  });
}

void sluice_chain_free(sluice_chain* chain) {
  delete chain;
}

sluice_status sluice_chain_run(const sluice_chain* chain, int32_t part, sluice_stream stream) {
  return guarded([&] {
    if (chain == nullptr) return fail(null_argument("chain"));
    return status_of(chain->chain.enqueue_part(part, stream, chain->workspace.view()));
  });
}

int32_t sluice_chain_parts(const sluice_chain* chain) {
  return chain != nullptr ? chain->chain.parts() : 0;
}
int32_t sluice_chain_kernels(const sluice_chain* chain) {
  return chain != nullptr ? chain->chain.kernels() : 0;
}
int32_t sluice_chain_programmatic_edges(const sluice_chain* chain) {
  return chain != nullptr ? chain->chain.programmatic_edges() : 0;
}
const char* sluice_chain_text(const sluice_chain* chain) {
  return chain != nullptr ? chain->text.c_str() : nullptr;
}

sluice_status sluice_chain_check(const sluice_chain* chain, void* graph) {
  return guarded([&] {
    if (chain == nullptr || graph == nullptr)
      return fail(null_argument(chain == nullptr ? "chain" : "graph"));
    return status_of(chain->chain.check(static_cast<CUgraph_st*>(graph)));
  });
}

}  // extern "C"
