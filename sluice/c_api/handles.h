// SPDX-License-Identifier: Apache-2.0
// What the opaque handles of c_api.h are.
#pragma once

#include <string>
#include <variant>
#include <vector>

#include <sluice/c_api/session.h>

struct sluice_device {
  sluice::c_api::Session session;
  std::string name;
};

struct sluice_plan {
  std::variant<sluice::Plan, sluice::packed::Plan> plan;
  std::string text, config;
  std::vector<std::string> units;  // none: there is nothing to launch
};

struct sluice_kernel {
  sluice::gemm::Kernel kernel;
};

struct sluice_workspace {
  sluice::Workspace workspace;
};
