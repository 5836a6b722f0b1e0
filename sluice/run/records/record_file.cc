// SPDX-License-Identifier: Apache-2.0
// The public face of record_store.h.
#include <sluice/record_file.h>

#include <sluice/gemm.h>
#include <sluice/plan/records/record_book.h>
#include <sluice/run/records/record_store.h>
#include <sluice/try.h>

namespace sluice {

Result<RecordFile> RecordFile::open(const std::string& file, const std::string& folder,
                                    const Options& options) {
  SLUICE_TAKE(RecordStore store, open_store(file, folder, options));
  return RecordFile(std::make_shared<RecordStore>(std::move(store)));
}

const std::vector<std::string>& RecordFile::troubles() const {
  return store_->troubles();
}
RecordBook RecordFile::book() const {
  return book_of(store_->records());
}
bool RecordFile::has(const Problem& problem, const DeviceInfo& device, const std::string& driver) const {
  const TuningRecord* record = store_->find(key_of(problem, device));
  return record != nullptr && record->sluice == library_version() && record->driver == driver;
}
Result<void> RecordFile::save(const TuningRecord& record) {
  return store_->save(record);
}
Result<void> RecordFile::save(const TunedChain& chain) {
  return store_->save(chain);
}

Result<std::string> record_name(const Problem& problem, const DeviceInfo& device) {
  SLUICE_TAKE(const Plan plan, gemm::plan(problem, device));
  return file_name_of(key_of(plan.problem, device));
}

int records_in(const std::string& folder) {
  return static_cast<int>(read_records_folder(folder).records.size());
}

}  // namespace sluice
