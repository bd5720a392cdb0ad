#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "workers/runtime/journal/journal.h"

/// Helpers of the journal's tests. Included by tests only.
namespace kintsugi::workers {

/// A data directory that is removed at the end, and journals in it.
class JournalBox {
 public:
  /// @param in_memory  where fsync costs nothing, if there is such a place.
  explicit JournalBox(bool in_memory = false) {
    const std::filesystem::path memory = "/dev/shm";
    const bool there = in_memory && ::access(memory.c_str(), W_OK) == 0;
    std::string pattern =
        ((there ? memory : std::filesystem::temp_directory_path()) / "journal-XXXXXX").string();
    root_ = ::mkdtemp(pattern.data()) == nullptr ? "" : pattern;
    params.directory = root_ + "/network/unit";
    params.boot_id = "boot-1";
  }
  ~JournalBox() {
    std::error_code ignored;
    std::filesystem::remove_all(root_, ignored);
  }
  JournalBox(const JournalBox&) = delete;
  JournalBox& operator=(const JournalBox&) = delete;

  [[nodiscard]] std::unique_ptr<Journal> open() const {
    auto journal = Journal::open(params);
    EXPECT_TRUE(journal) << journal.error().to_string();
    return journal ? std::move(*journal) : nullptr;
  }
  [[nodiscard]] std::string data() const { return params.directory + "/data.mdb"; }
  [[nodiscard]] const std::string& root() const noexcept { return root_; }

  JournalParams params;

 private:
  std::string root_;
};

inline std::string read_whole(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

inline void write_whole(const std::string& path, std::string_view bytes) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

/// "cluster/ns/name=payload@rv#epoch" of every row, in order.
inline std::vector<std::string> rows_of(Journal& journal, JournalTable table = 0) {
  std::vector<std::string> rows;
  const auto scanned = journal.scan(table, [&](const JournalKey& key, const JournalRow& row) {
    std::string text(key.cluster);
    text.append("/").append(key.ns).append("/").append(key.name).append("=");
    text.append(row.payload).append("@").append(row.rv).append("#");
    rows.push_back(text + std::to_string(row.epoch));
    return true;
  });
  EXPECT_TRUE(scanned) << scanned.error().to_string();
  return rows;
}

}  // namespace kintsugi::workers
