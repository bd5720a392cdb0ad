#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>

#include "server/backup/internal/backup_set.h"
#include "server/backup/internal/chunks.h"
#include "server/backup/internal/live_keys.h"
#include "server/backup/internal/manifest.h"
#include "server/backup/internal/restorer.h"
#include "server/backup/internal/seal.h"
#include "server/files.h"

namespace kintsugi::server {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

namespace fs = std::filesystem;

const Secret kKey = Secret::copy_of("a key of thirty-two bytes, or so");

std::string bytes_of_hex(std::string_view hex) {
  std::string out;
  for (std::size_t i = 0; i + 1 < hex.size(); i += 2) {
    out += static_cast<char>(std::stoi(std::string(hex.substr(i, 2)), nullptr, 16));
  }
  return out;
}

class Backups : public ::testing::Test {
 protected:
  Backups() {
    std::string pattern = (fs::temp_directory_path() / "backup-test-XXXXXX").string();
    folder_ = ::mkdtemp(pattern.data()) == nullptr ? "" : pattern;
  }
  ~Backups() override {
    std::error_code ignored;
    fs::remove_all(folder_, ignored);
  }
  /// An empty backup of that time, published. @returns its name
  std::string publish(std::int64_t time, const std::string& parent = "", const Secret& key = {}) {
    const BackupSet set(folder_);
    BackupManifest manifest;
    manifest.id = "id-" + std::to_string(time);
    manifest.time = time;
    manifest.is_sealed = !key.empty();
    if (!parent.empty()) {
      manifest.parent = parent;
      manifest.parent_mark = set.read(parent, key)->mark;
    }
    auto made = NewBackup::begin(folder_);
    EXPECT_TRUE(made) << made.error().to_string();
    EXPECT_TRUE(made->publish(manifest, key.empty() ? BackupSeal() : BackupSeal(key, manifest.id)));
    return manifest.name;
  }
  std::string folder_;
};

/// RFC 5869, A.1 and A.3: the first 32 bytes.
TEST(BackupSeal, GR_404_KeysAreDerivedAsTheRfcSays) {
  const std::string ikm(22, '\x0b');
  EXPECT_EQ(derived_key(Secret::copy_of(ikm), bytes_of_hex("000102030405060708090a0b0c"),
                        bytes_of_hex("f0f1f2f3f4f5f6f7f8f9"))
                .view(),
            bytes_of_hex("3cb25f25faacd57a90434f64d0362f2a2d2d0a90cf1a5a4c5db02d56ecc4c5bf"));
  EXPECT_EQ(derived_key(Secret::copy_of(ikm), "", "").view(),
            bytes_of_hex("8da4e775a563c18f715f802a063c5a31b8a11f5c5ee1879ec3454e5f3c738d2d"));
}

TEST(BackupSeal, GR_404_ABlockOpensInItsPlaceOnly) {
  const BackupSeal seal(kKey, "id");
  std::string plain(BackupSeal::kBlock, 'a');
  plain += std::string(BackupSeal::kBlock, 'b') + "rest";
  const std::string sealed = seal.seal("rows-1", plain);
  EXPECT_EQ(*seal.open("rows-1", sealed), plain);
  EXPECT_EQ(seal.open("rows-2", sealed).error().code(), Errc::kCorrupt);
  EXPECT_FALSE(BackupSeal(kKey, "other").open("rows-1", sealed));
  EXPECT_FALSE(BackupSeal(Secret::copy_of("another key"), "id").open("rows-1", sealed));
  constexpr std::size_t kSealed = BackupSeal::kBlock + 28;
  std::string swapped = sealed;
  std::swap_ranges(swapped.begin(), swapped.begin() + kSealed, swapped.begin() + kSealed);
  EXPECT_FALSE(seal.open("rows-1", swapped));
  EXPECT_EQ(BackupSeal().seal("rows-1", plain), plain);
  EXPECT_NE(seal.mark_of("text"), BackupSeal().mark_of("text"));
}

TEST_F(Backups, GR_403_AManifestSaysItAllAndNothingElsePasses) {
  for (const Secret& key : {Secret(), kKey}) {
    BackupManifest manifest;
    manifest.id = "id";
    manifest.time = 1'000;
    manifest.version = "0.1";
    manifest.is_sealed = !key.empty();
    manifest.is_exact = false;
    manifest.parent = "before";
    manifest.parent_mark = "mark";
    manifest.stores = {
        {"shard/root", "17", 3, 9, 2, {"a/b"}, {{"rows-1-1", 5, "aa"}}, {{"live-1-1", 6, "bb"}}}};
    manifest.files = {{"files-1", 7, "cc"}};
    manifest.elsewhere = {"far"};
    const BackupSeal seal = key.empty() ? BackupSeal() : BackupSeal(key, "id");
    const std::string text = write_manifest(manifest, seal);
    const auto read = read_manifest(text, key);
    ASSERT_TRUE(read) << read.error().to_string();
    EXPECT_EQ(read->stores, manifest.stores);
    EXPECT_EQ(read->files, manifest.files);
    EXPECT_EQ(read->elsewhere, manifest.elsewhere);
    EXPECT_EQ(read->mark, manifest.mark);
    EXPECT_EQ(read->parent, "before");
    EXPECT_EQ(read->parent_mark, "mark");
    EXPECT_FALSE(read->is_exact);
    EXPECT_EQ(read->keys(), 2U);
    EXPECT_EQ(read->bytes(), 18U);
    EXPECT_EQ(read->find("proxy"), nullptr);
    std::string changed = text;
    changed[changed.find("shard/root")] = 'S';
    EXPECT_EQ(read_manifest(changed, key).error().code(), Errc::kCorrupt);
    EXPECT_FALSE(read_manifest(text, key.empty() ? kKey : Secret()));
    for (std::size_t size = 0; size + 2 < text.size(); size += 7) {
      EXPECT_FALSE(read_manifest(text.substr(0, size), key));
    }
  }
}

TEST_F(Backups, GR_404_RecordsComeBackAndWhatIsCutOffDoesNot) {
  const BackupSeal seal(kKey, "id");
  ChunkWriter writer(folder_, "rows", seal);
  const std::string large(std::size_t{9} << 20, 'x');
  ASSERT_TRUE(writer.add({"a", large, 1, 2}));
  ASSERT_TRUE(writer.add({"b", large, 3, 4}));
  ASSERT_TRUE(writer.add({std::string_view("c\0d", 3), "", 5, ~std::uint64_t{0}}));
  const auto files = writer.finish();
  ASSERT_TRUE(files);
  ASSERT_EQ(files->size(), 2U);
  std::vector<std::string> seen;
  for (const BackupFile& file : *files) {
    const auto chunk = read_chunk(folder_, file, seal);
    ASSERT_TRUE(chunk);
    EXPECT_TRUE(each_record(*chunk, [&seen](const store::EntryView& row) -> Expected<void> {
      seen.push_back(std::string(row.key) + "=" + std::to_string(row.value.size()) + "@" +
                     std::to_string(row.created) + "/" + std::to_string(row.modified));
      return {};
    }));
    EXPECT_FALSE(each_record(std::string_view(*chunk).substr(0, chunk->size() - 1),
                             [](const store::EntryView&) { return Expected<void>(); }));
  }
  EXPECT_THAT(seen, ElementsAre("a=9437184@1/2", "b=9437184@3/4",
                                std::string("c\0d", 3) + "=0@5/18446744073709551615"));
  BackupFile other = files->front();
  other.sha256[0] = other.sha256[0] == '0' ? '1' : '0';
  EXPECT_THAT(std::string(read_chunk(folder_, other, seal).error().message()),
              HasSubstr("rows-1: is damaged"));
  other.name = "../rows-1";
  EXPECT_FALSE(read_chunk(folder_, other, seal));
}

TEST_F(Backups, GR_405_LiveKeysAreKnownByTheirDigests) {
  LiveKeys keys;
  for (const char* key : {"c", "a", "b"}) {
    keys.add(LiveKeys::digest_of(key));
  }
  keys.sort();
  EXPECT_TRUE(keys.has("a") && keys.has("b") && keys.has("c"));
  EXPECT_FALSE(keys.has("d") || keys.has(""));
}

TEST_F(Backups, GR_405_AChainIsOfThoseThatWereMeant) {
  const BackupSet set(folder_);
  EXPECT_THAT(std::string(set.chain_of("", {}).error().message()), HasSubstr("there is no backup"));
  const std::string first = publish(1'000);
  const std::string second = publish(1'000, first);
  const std::string third = publish(900, second);  // the clock was set back
  EXPECT_THAT(*set.names(), ElementsAre(first, second, third));
  EXPECT_EQ(first, "19700101T001640Z");
  const auto chain = set.chain_of("", {});
  ASSERT_TRUE(chain);
  ASSERT_EQ(chain->size(), 3U);
  EXPECT_EQ(chain->front().name, first);
  // The first one is replaced by another one, which is sound.
  fs::remove_all(set.path_of(first));
  const std::string other = publish(5'000);
  fs::rename(set.path_of(other), set.path_of(first));
  EXPECT_THAT(std::string(set.chain_of(third, {}).error().message()),
              HasSubstr("is not the one that " + second + " adds to"));
  fs::remove_all(set.path_of(first));
  EXPECT_FALSE(set.chain_of(third, {}));
}

TEST_F(Backups, GR_405_ChainsEnd) {
  const BackupSet set(folder_);
  std::string name;
  for (std::size_t i = 0; i <= kLongestChain; ++i) {
    name = publish(1'000 + static_cast<std::int64_t>(i), name);
  }
  EXPECT_THAT(std::string(set.chain_of(name, {}).error().message()), HasSubstr("of a chain"));
}

TEST_F(Backups, GR_401_WhatIsUnfinishedIsNoBackup) {
  {
    auto made = NewBackup::begin(folder_);
    ASSERT_TRUE(made);
    ASSERT_TRUE(write_file(made->folder() + "/rows-1", "x"));
    EXPECT_THAT(std::string(NewBackup::begin(folder_).error().message()), HasSubstr("in use"));
    EXPECT_TRUE(BackupSet(folder_).names()->empty());
  }
  EXPECT_FALSE(file_exists(folder_ + "/unfinished"));
  // One that was killed.
  ASSERT_TRUE(make_directories(folder_ + "/unfinished"));
  ASSERT_TRUE(write_file(folder_ + "/unfinished/rows-1", "x"));
  ASSERT_TRUE(write_file(folder_ + "/unfinished/manifest.json", "{}"));
  EXPECT_TRUE(BackupSet(folder_).names()->empty());
  publish(1'000);
  EXPECT_FALSE(file_exists(folder_ + "/unfinished"));
  EXPECT_EQ(BackupSet(folder_).names()->size(), 1U);
}

TEST_F(Backups, GR_405_WhatIsKeptKeepsWhatItNeeds) {
  const std::string first = publish(1'000);
  const std::string second = publish(2'000);
  const std::string third = publish(3'000, second);
  auto made = NewBackup::begin(folder_);
  ASSERT_TRUE(made);
  EXPECT_EQ(*made->keep(1, {}), 1U);
  EXPECT_THAT(*BackupSet(folder_).names(), ElementsAre(second, third));
  EXPECT_EQ(*made->keep(5, {}), 0U);
}

TEST(RevisionsAhead, GR_409_LaterRestoresOfOneBackupBeginLater) {
  EXPECT_EQ(revisions_ahead(-5), 1'000'000'000U);
  EXPECT_EQ(revisions_ahead(0), 1'000'000'000U);
  EXPECT_EQ(revisions_ahead(60), 1'000'600'000U);
}

}  // namespace
}  // namespace kintsugi::server
