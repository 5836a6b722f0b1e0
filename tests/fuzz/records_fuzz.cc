// SPDX-License-Identifier: Apache-2.0
// Fuzzes files of tuning records. Any bytes must give records and chains that are the same after writing and
// reading, and one-line messages of limited length about the rest.
#include <stdlib.h>

#include <string_view>

#include <sluice/plan/records/record.h>

#include "message_rules.h"

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, size_t size) {
  const sluice::ParsedRecords parsed =
      sluice::parse_records({reinterpret_cast<const char*>(data), size}, "FILE");
  for (const std::string& trouble : parsed.troubles)
    if (!sluice::test::is_fit_to_print(trouble)) abort();
  for (const sluice::TuningRecord& record : parsed.records)
    if (sluice::parse_records(sluice::to_json(record), "AGAIN").records.size() != 1) abort();
  for (const sluice::TunedChain& chain : parsed.chains)
    if (sluice::parse_records(sluice::to_json(chain), "AGAIN").chains.size() != 1) abort();
  return 0;
}
