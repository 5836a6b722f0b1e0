// SPDX-License-Identifier: Apache-2.0
// Books and stores: lookups, precedence, skipped records, files on disk. To see it fail: add the layers in
// the other order, so that the shipped record wins; or remove newest-wins from add_layer.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include <sluice/run/records/record_store.h>

#include "cli/doctor_checks.h"
#include "tuner_fixture.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;

class TunerStore : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = testing::TempDir() + "sluice_records_" + std::to_string(getpid());
    fs::remove_all(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }

  void put(const std::string& name, const std::string& text) const {
    std::ofstream(folder_ + "/" + name) << text;
  }
  std::string folder_;
};

mode_t mode_of(const std::string& path) {
  struct stat status {};
  return stat(path.c_str(), &status) == 0 ? status.st_mode & 0777 : 0;
}

TuningRecord with_tile_n(int tile_n, const std::string& date) {
  TuningRecord record = sample_record();
  dense_choice(record).tile_n = tile_n;
  record.date = date;
  return record;
}

TEST(tuner_book, an_empty_one_finds_nothing) {
  EXPECT_FALSE(RecordBook().find(tuned_problem(), DeviceInfo{}));
  EXPECT_EQ(RecordBook().size(), 0);
}

TEST(tuner_book, finds_the_exact_problem_on_the_exact_gpu) {
  const RecordBook book = book_of(std::vector{sample_record()});
  EXPECT_EQ(book.size(), 1);
  const auto found = book.find(tuned_problem(), DeviceInfo{});
  ASSERT_TRUE(found);
  EXPECT_EQ(*found, sample_record().choice);
  Problem other = tuned_problem();
  other.m = 1025;
  EXPECT_FALSE(book.find(other, DeviceInfo{}));
  EXPECT_FALSE(book.find(tuned_problem(), {.name = "NVIDIA H100 PCIe"}));
  EXPECT_FALSE(book.find(tuned_problem(), {.sm_count = 114}));
}

TEST(tuner_book, the_users_record_wins_and_among_equals_the_newer) {
  const TuningRecord shipped = with_tile_n(64, "2027-01-01T00:00:00Z");
  const std::vector own{with_tile_n(96, "2026-06-01T00:00:00Z"), with_tile_n(128, "2026-05-01T00:00:00Z")};
  const RecordBook book = book_of(std::vector{shipped}, own);
  EXPECT_EQ(book.size(), 1);
  EXPECT_EQ(book.find(tuned_problem(), DeviceInfo{})->tile_n, 96);
  EXPECT_EQ(book_of(std::vector{shipped}).find(tuned_problem(), DeviceInfo{})->tile_n, 64);
}

TEST_F(TunerStore, a_folder_is_private_and_gives_back_what_was_saved) {
  Result<RecordStore> store = RecordStore::open_folder(folder_ + "/deep/records");
  ASSERT_TRUE(store) << store.error().message;
  ASSERT_TRUE(store->save(sample_record()));
  const std::string path = folder_ + "/deep/records";
  EXPECT_EQ(mode_of(path), 0700u);
  const std::string file = path + "/" + file_name_of(sample_record().key);
  EXPECT_EQ(mode_of(file), 0600u) << file;
  EXPECT_EQ(read_records_folder(path).records, std::vector{sample_record()});
  EXPECT_EQ(RecordStore::open_folder(path)->records(), std::vector{sample_record()});
  EXPECT_EQ(open_records({.records_dir = path}).find(tuned_problem(), DeviceInfo{}).value(),
            sample_record().choice);
  int files = 0;
  for ([[maybe_unused]] const auto& entry : fs::directory_iterator(path)) ++files;
  EXPECT_EQ(files, 1) << "no lock or temporary file stays";
}

TEST_F(TunerStore, saving_again_replaces) {
  Result<RecordStore> store = RecordStore::open_folder(folder_);
  ASSERT_TRUE(store && store->save(with_tile_n(64, "2026-05-01T00:00:00Z")));
  ASSERT_TRUE(store->save(sample_record()));
  EXPECT_EQ(store->records().size(), 1u);
  EXPECT_EQ(read_records_folder(folder_).records, std::vector{sample_record()});
  ASSERT_NE(store->find(sample_record().key), nullptr);
  EXPECT_EQ(*store->find(sample_record().key), sample_record());
}

TEST_F(TunerStore, damage_is_passed_over_and_told) {
  Result<RecordStore> store = RecordStore::open_folder(folder_);
  ASSERT_TRUE(store && store->save(sample_record()));
  put("half.json", to_json(sample_record()).substr(0, 100));
  put("notes.txt", "not a record, and no .json");
  fs::create_directory(folder_ + "/folder.json");
  fs::create_symlink("/etc/passwd", folder_ + "/link.json");
  const RecordBook book = open_records({.records_dir = folder_});
  EXPECT_TRUE(book.find(tuned_problem(), DeviceInfo{}));
  ASSERT_EQ(book.troubles().size(), 3u);
  EXPECT_NE(book.troubles()[1].find(folder_ + "/half.json: "), std::string::npos) << book.troubles()[1];
}

TEST_F(TunerStore, a_folder_that_others_may_write_to_is_not_used) {
  ASSERT_TRUE(RecordStore::open_folder(folder_)->save(sample_record()));
  fs::permissions(folder_, fs::perms(0777));
  const RecordBook book = open_records({.records_dir = folder_});
  EXPECT_EQ(book.size(), shipped_records().size());
  ASSERT_EQ(book.troubles().size(), 1u);
  EXPECT_NE(book.troubles()[0].find("the folder of tuning records '"), std::string::npos)
      << book.troubles()[0];
  EXPECT_FALSE(RecordStore::open_folder(folder_));
}

TEST_F(TunerStore, the_doctor_counts_them) {
  ASSERT_TRUE(RecordStore::open_folder(folder_)->save(sample_record()));
  EXPECT_EQ(cli::check_records({}).health, cli::Health::ok);
  const cli::Check good = cli::check_records({.records_dir = folder_});
  EXPECT_EQ(good.health, cli::Health::ok) << good.found;
  EXPECT_NE(good.found.find("1 in " + folder_), std::string::npos) << good.found;
  put("bad.json", "{");
  const cli::Check bad = cli::check_records({.records_dir = folder_});
  EXPECT_EQ(bad.health, cli::Health::optional) << "the model stands in";
  EXPECT_NE(bad.found.find("1 passed over: " + folder_ + "/bad.json"), std::string::npos) << bad.found;
}

TEST_F(TunerStore, no_folder_is_no_trouble) {
  EXPECT_TRUE(open_records({.records_dir = folder_}).troubles().empty());
  EXPECT_TRUE(open_records({}).troubles().empty());
  EXPECT_FALSE(fs::exists(folder_)) << "reading makes none";
}

TEST_F(TunerStore, a_file_is_sorted_kept_and_refused_when_it_is_not_ours) {
  fs::create_directory(folder_);
  const std::string path = folder_ + "/h200.json";
  Result<RecordStore> store = RecordStore::open_file(path);
  ASSERT_TRUE(store) << store.error().message;
  Problem wide = tuned_problem();
  wide.n = 8192;
  ASSERT_TRUE(store->save(sample_record(wide)));
  ASSERT_TRUE(store->save(sample_record()));
  EXPECT_EQ(RecordStore::open_file(path)->records(), (std::vector{sample_record(), sample_record(wide)}));
  put("h200.json", "[{}]");
  const Result<RecordStore> bad = RecordStore::open_file(path);
  ASSERT_FALSE(bad);
  EXPECT_NE(bad.error().message.find("h200.json: record 0: \"version\" is missing"), std::string::npos)
      << bad.error().message;
  EXPECT_FALSE(RecordStore::open_file("/no/such/folder/x.json"));
}

TEST_F(TunerStore, a_file_behind_a_link_is_written_and_what_is_no_file_is_refused) {
  fs::create_directory(folder_);
  const std::string path = folder_ + "/h200.json", link = folder_ + "/link.json";
  put("h200.json", "[]");
  fs::create_symlink("h200.json", link);
  Result<RecordStore> store = RecordStore::open_file(link);
  ASSERT_TRUE(store) << store.error().message;
  ASSERT_TRUE(store->save(sample_record()));
  EXPECT_TRUE(fs::is_symlink(link));
  EXPECT_EQ(RecordStore::open_file(path)->records(), std::vector{sample_record()});
  const Result<RecordStore> folder = RecordStore::open_file(folder_);
  ASSERT_FALSE(folder);
  EXPECT_EQ(folder.error().message.find(folder_ + " is a folder"), 0u) << folder.error().message;
}

}  // namespace
}  // namespace sluice
