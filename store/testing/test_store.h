#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <memory>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "store/lmdb/lmdb_store.h"
#include "store/memory/memory_store.h"
#include "store/store.h"

/// Helpers of the store's tests. Included by tests only.
namespace kintsugi::store {

class TempDir {
 public:
  TempDir() {
    std::string pattern = (std::filesystem::temp_directory_path() / "store-test-XXXXXX").string();
    path_ = ::mkdtemp(pattern.data()) == nullptr ? "" : pattern;
  }
  ~TempDir() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;
  [[nodiscard]] std::string data() const { return path_ + "/data"; }

 private:
  std::string path_;
};

enum class Backend { kLmdb, kMemory };

/// For INSTANTIATE_TEST_SUITE_P.
inline std::string backend_name(const ::testing::TestParamInfo<Backend>& info) {
  return info.param == Backend::kLmdb ? "Lmdb" : "Memory";
}

/// A store of one kind in its own directory, which LMDB stores can be reopened from.
class TestStore {
 public:
  explicit TestStore(Backend backend) : backend_(backend) {
    params_.directory = directory_.data();
    params_.map_limit = std::uint64_t{256} << 20;
    params_.no_sync = true;
    if (backend_ == Backend::kMemory) {
      store_ = std::make_unique<MemoryStore>();
    } else {
      reopen();
    }
  }
  void reopen() {
    if (backend_ == Backend::kLmdb) {
      store_.reset();
      auto opened = LmdbStore::open(params_);
      ASSERT_TRUE(opened) << opened.error().to_string();
      store_ = std::move(*opened);
    }
  }
  [[nodiscard]] Store& operator*() const { return *store_; }
  [[nodiscard]] Store* operator->() const { return store_.get(); }
  /// Nothing, or the first inconsistency that verify() reports.
  [[nodiscard]] std::string problem() const {
    if (backend_ == Backend::kMemory) {
      return "";
    }
    const auto report = static_cast<LmdbStore&>(*store_).verify();
    return !report                    ? report.error().to_string()
           : report->problems.empty() ? ""
                                      : report->problems.front();
  }

 private:
  Backend backend_;
  TempDir directory_;
  LmdbParams params_;
  std::unique_ptr<Store> store_;
};

inline Op put(std::string key, std::string value, std::optional<Revision> expected = {}) {
  return {EventType::kPut, std::move(key), std::move(value), expected};
}
inline Op erase(std::string key, std::optional<Revision> expected = {}, std::string last = "") {
  return {EventType::kDelete, std::move(key), std::move(last), expected};
}

/// Commits; 0 when that failed or conflicted.
template <class... Ops>
Revision write(Store& store, Ops... ops) {
  std::vector<Op> list;
  (list.push_back(std::move(ops)), ...);
  const auto result = store.commit_wait(std::move(list));
  return result && !result->conflict ? result->revision : 0;
}

inline Errc error_of(const Expected<CommitResult>& result) {
  return result ? Errc::kOk : result.error().code();
}

/// "key=value@modified/created" of every row, or the error's name.
inline std::vector<std::string> rows(const Store& store, const RangeQuery& query) {
  std::vector<std::string> out;
  const auto revision = store.range(query, [&out](const EntryView& entry) {
    out.push_back(std::string(entry.key) + "=" + std::string(entry.value) + "@" +
                  std::to_string(entry.modified) + "/" + std::to_string(entry.created));
    return true;
  });
  if (!revision) {
    return {std::string(errc_name(revision.error().code()))};
  }
  return out;
}

/// "revision +key=value (before@modified)" or "revision -key=...".
inline std::string describe(const Event& event) {
  return std::to_string(event.revision) + (event.type == EventType::kPut ? " +" : " -") +
         event.key + "=" + std::string(event.value.view()) + " (" +
         std::string(event.previous.view()) + "@" + std::to_string(event.previous_modified) + "/" +
         std::to_string(event.created) + ")";
}
inline std::vector<std::string> describe(const std::vector<Event>& events) {
  std::vector<std::string> out;
  for (const Event& event : events) {
    out.push_back(describe(event));
  }
  return out;
}

}  // namespace kintsugi::store
