#pragma once

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "store/lmdb/backup.h"
#include "store/lmdb/internal/environment.h"
#include "store/lmdb/internal/layout.h"
#include "store/lmdb/internal/page_walk.h"
#include "store/lmdb/internal/row_writer.h"

namespace kintsugi::store {

/// The live rows that a walk over the pages of a store finds, in a new one. Private to store/lmdb/.
class Salvage {
 public:
  /// @param directory  is made. @error kConfig, kIo, kFull.
  [[nodiscard]] static Expected<std::unique_ptr<Salvage>> make(const std::string& directory) {
    auto to = Environment::open({directory, kMap});
    if (!to) {
      return fail(std::move(to.error()));
    }
    return std::unique_ptr<Salvage>(new Salvage(directory, std::move(*to)));
  }

  /// Of the walk.
  void take(std::string_view table, std::string_view key, std::string_view value) {
    if (table == "meta" && key == "state") {
      state_ = layout::decode_state(value);
    } else if (table == "meta" && key == kMoved) {
      code_ = code_ != 0 ? code_ : rows_->put(to_->tables().meta, key, value);
    } else if (table == "log") {
      if (layout::decode_log(key, value)) {
        newest_ = std::max(newest_, layout::split_log_key(key).first);
      }
    } else if (table == "history") {
      if (const auto row = layout::decode_version(key, value)) {
        newest_ = std::max(newest_, row->second);
      }
    } else if (table == "current") {
      take_live(key, value);
    }
  }

  [[nodiscard]] std::uint64_t saved() const noexcept { return saved_; }
  /// Rows of `current` whose place holds and whose record does not.
  [[nodiscard]] const std::vector<LostKeys>& damaged() const noexcept { return damaged_; }
  /// The newest that was given out, as the state says it; nullopt: nobody knows it.
  [[nodiscard]] std::optional<Revision> revision() const noexcept {
    return state_ && state_->revision >= newest_ ? std::optional(state_->revision) : std::nullopt;
  }
  /// Above all that can have been given out.
  [[nodiscard]] Revision revision_ahead() const noexcept {
    return std::max(newest_, state_ ? state_->revision : 0) + kRestoreJump;
  }
  /// The new store is at `revision`, and has no history. @error kIo, kFull.
  [[nodiscard]] Expected<void> finish(Revision revision) {
    int code = code_;
    code = code != 0 ? code
                     : rows_->put(to_->tables().meta, "state",
                                  layout::encode_state({revision, revision}));
    code = code != 0 ? code : rows_->commit();
    if (code != 0) {
      return fail(lmdb_error(code, directory_));
    }
    rows_.reset();
    to_.reset();
    return {};
  }

 private:
  static constexpr std::uint64_t kMap = (std::uint64_t{64} << 30) + (std::uint64_t{64} << 20);

  Salvage(std::string directory, std::unique_ptr<Environment> to)
      : directory_(std::move(directory)), to_(std::move(to)) {
    rows_.emplace(*to_);
  }
  void take_live(std::string_view key, std::string_view value) {
    const auto row = layout::decode_version(key, value);
    if (!row) {
      damaged_.push_back({"current", std::string(key), std::string(key) + '\0'});
      return;
    }
    newest_ = std::max(newest_, row->second);
    ++saved_;
    if (code_ == 0) {
      code_ = rows_->put(to_->tables().current, key, value);
    }
  }

  std::string directory_;
  std::unique_ptr<Environment> to_;
  std::optional<RowWriter> rows_;
  int code_ = 0;  // of LMDB, of the copy
  std::uint64_t saved_ = 0;
  Revision newest_ = 0;  // that any record names
  std::optional<layout::State> state_;
  std::vector<LostKeys> damaged_;
};

}  // namespace kintsugi::store
