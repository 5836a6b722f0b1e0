// SPDX-License-Identifier: Apache-2.0
#include <sluice/run/driver/module.h>

#include <sluice/plan/text/units.h>
#include <sluice/run/driver/capture_mode.h>
#include <sluice/run/driver/context.h>
#include <sluice/run/driver/error.h>
#include <sluice/run/jit/code_scan.h>
#include <sluice/run/jit/compiler.h>
#include <sluice/try.h>

namespace sluice {

Result<std::shared_ptr<const Module>> Module::load(const DriverApi& api, const Cubin& cubin,
                                                   int dynamic_smem_bytes) {
  CUcontext context = nullptr;
  if (const CUresult code = api.cuCtxGetCurrent(&context); code != CUDA_SUCCESS)
    return driver_error(api, code, "cuCtxGetCurrent");
  if (context == nullptr)
    return Error{ErrorCode::internal, "Module::load: no context is current; enter a ContextScope first"};

  // Any thread may capture meanwhile: nothing that it captures depends on this module. (Some drivers load a
  // kernel when it is first asked for, so the mode covers these calls too.)
  const RelaxedCapture whatever_is_captured(api);
  std::shared_ptr<Module> module(new Module(api, context));
  CUresult code = api.cuModuleLoadData(&module->module_, cubin.image.data());
  if (code != CUDA_SUCCESS) {
    module->module_ = nullptr;
    return driver_error(api, code, "cuModuleLoadData",
                        std::to_string(cubin.image.size()) + " bytes built by " + cubin.report.compiler);
  }
  code = api.cuModuleGetFunction(&module->function_, module->module_, kEntryName);
  if (code == CUDA_ERROR_NOT_FOUND)
    return Error{ErrorCode::internal, std::string("the cubin has no kernel named ") + kEntryName};
  if (code != CUDA_SUCCESS) return driver_error(api, code, "cuModuleGetFunction", kEntryName);
  code = api.cuFuncSetAttribute(module->function_, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                                dynamic_smem_bytes);
  if (code != CUDA_SUCCESS)
    return driver_error(api, code, "cuFuncSetAttribute",
                        "dynamic shared memory of " + std::to_string(dynamic_smem_bytes) + " bytes");
  code = api.cuFuncGetAttribute(&module->registers_, CU_FUNC_ATTRIBUTE_NUM_REGS, module->function_);
  if (code != CUDA_SUCCESS) return driver_error(api, code, "cuFuncGetAttribute", "registers");
  module->waits_ = holds(cubin.image, Opcode::wait_prerequisites);
  return std::shared_ptr<const Module>(std::move(module));
}

Result<void> Module::check_waits() const {
  if (waits_) return {};
  return Error{ErrorCode::internal,
               "the compiled kernel has no wait for the launches before it: it cannot be launched as a "
               "dependent; plan "
               "it with Wait::none, and report this"};
}

Module::~Module() {
  if (module_ == nullptr) return;
  const ContextScope scope(api_, context_);
  const RelaxedCapture whatever_is_captured(api_);
  api_.cuModuleUnload(module_);
}

}  // namespace sluice
