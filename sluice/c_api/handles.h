// SPDX-License-Identifier: Apache-2.0
// What the opaque handles of c_api.h are.
#pragma once

#include <string>

#include <sluice/c_api/session.h>

struct sluice_device {
  sluice::c_api::Session session;
  std::string name;
};

struct sluice_plan {
  sluice::Plan plan;
  std::string text, config, unit;
};

struct sluice_kernel {
  sluice::gemm::Kernel kernel;
};

struct sluice_workspace {
  sluice::Workspace workspace;
};
