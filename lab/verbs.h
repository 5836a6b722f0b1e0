// SPDX-License-Identifier: Apache-2.0
// The verbs of `sluice_lab`, the authors' tool. It measures sluice itself: what a release must know, and what
// the cost model is fitted to. It may include anything, and nothing includes it but tests.
#pragma once

#include "cli/verb.h"

namespace sluice::lab {

using cli::Verb;

Verb add_verify_verb(CLI::App& app);
Verb add_rows_verb(CLI::App& app);
Verb add_calibrate_verb(CLI::App& app);
Verb add_fit_verb(CLI::App& app);

}  // namespace sluice::lab
