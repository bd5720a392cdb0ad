#include "store/lmdb/internal/group.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

#include "store/lmdb/internal/reader.h"
#include "store/raise.h"
#include "store/undated.h"

namespace kintsugi::store {
namespace {

constexpr std::uint64_t kPageBytes = 4096;

}  // namespace

struct Group::Before {
  bool stored = false;  ///< a row exists, perhaps a damaged one
  bool known = false;   ///< ... and it is intact
  Revision created = 0;
  Revision modified = 0;
  SharedBytes value;
};

Expected<Group::Before> Group::look(const Op& op) {
  Before before;
  if (op.key == kRaiseKey) {
    before.modified = state_.revision;
    return before;
  }
  auto row = reader::current(txn_, tables_, op.key, !op.only_expected);
  if (row && op.only_expected) {
    before.modified = row->second;
  } else if (row) {
    before = {true, true, row->created, row->second, SharedBytes(row->value)};
  } else if (row.error().code() == Errc::kCorrupt && !op.expected) {
    before.stored = true;  // an unconditional write is the way to get rid of a damaged record
  } else if (row.error().code() != Errc::kNotFound) {
    return fail(std::move(row).error());
  }
  return before;
}

bool Group::is_change(const Op& op, const Before& before) noexcept {
  return !op.only_expected && (before.stored || op.type == EventType::kPut);
}

bool Group::fits(const std::vector<Op>& ops) const {
  std::uint64_t bytes = 0;
  bool grows = false;
  for (const Op& op : ops) {
    if (op.only_expected) {
      continue;
    }
    // Value, log record, page rounding, and a share of the pages that splits add.
    bytes += op.value.size() + 4 * op.key.size() + kPageBytes;
    grows = grows || op.type == EventType::kPut;
  }
  return !grows || reader::used_bytes(txn_, tables_) + bytes <= limit_;
}

Expected<CommitResult> Group::apply(const std::vector<Op>& ops) {
  std::vector<Before> befores;
  befores.reserve(ops.size());
  bool changes = false;
  for (std::size_t i = 0; i < ops.size(); ++i) {
    auto before = look(ops[i]);
    if (!before) {
      return fail(std::move(before).error());
    }
    if (ops[i].expected && *ops[i].expected != before->modified) {
      return CommitResult{0, true, i, before->modified, {}};
    }
    if (ops[i].created != 0 && !is_undated(ops[i]) && before->known &&
        ops[i].created != before->created) {
      return CommitResult{0, true, i, before->modified, {}};
    }
    changes = changes || is_change(ops[i], *before);
    befores.push_back(std::move(*before));
  }
  if (only_raises(ops)) {
    state_.revision = std::max(state_.revision, next_revision(0, ops) - 1);
  }
  if (!changes) {
    return CommitResult{state_.revision, false, 0, 0, {}};
  }
  if (!fits(ops)) {
    return fail(Errc::kFull, "the store has reached its size limit");
  }
  if (auto excess = books_.is_open() ? enter(ops, befores) : std::nullopt) {
    return CommitResult{0, false, 0, 0, excess};
  }
  const Revision revision = next_revision(state_.revision, ops);
  std::uint32_t index = 0;
  for (std::size_t i = 0; i < ops.size() && failed_ == 0; ++i) {
    if (is_change(ops[i], befores[i])) {
      write(ops[i], befores[i], revision, index++);
    }
  }
  state_.revision = revision;
  ++commits_;
  return CommitResult{revision, false, 0, 0, {}};
}

std::optional<Excess> Group::enter(const std::vector<Op>& ops, const std::vector<Before>& befores) {
  for (std::size_t i = 0; i < ops.size(); ++i) {
    if (ops[i].only_expected) {
      continue;
    }
    using Value = std::optional<std::string_view>;
    books_.row(ops[i].key, befores[i].known ? Value(befores[i].value.view()) : std::nullopt,
               ops[i].type == EventType::kPut ? Value(ops[i].value) : std::nullopt, ops[i].keeps);
  }
  return books_.settle();
}

void Group::write(const Op& op, Before& before, Revision revision, std::uint32_t index) {
  const Revision made = op.created != 0 ? op.created : revision;
  const Revision created = before.known ? before.created : made;
  if (before.known) {
    put_version(tables_.history, layout::history_key(op.key, before.modified),
                {before.created, revision, before.value.view()});
  }
  if (op.type == EventType::kPut) {
    put_version(tables_.current, op.key, {created, revision, op.value});
    put_log(revision, index, {op.type, created, before.modified, op.key, {}});
  } else {
    MDB_val key = to_val(op.key);
    if (failed_ == 0) {
      failed_ = mdb_del(txn_, tables_.current, &key, nullptr);
    }
    put_log(revision, index, {op.type, created, before.modified, op.key, op.value});
  }
  events_.push_back({revision, op.type, op.key, SharedBytes(op.value), std::move(before.value),
                     is_undated(op) ? kUndated : created, before.modified});
}

void Group::put_version(MDB_dbi table, std::string_view db_key, const layout::Version& version) {
  if (failed_ != 0) {
    return;
  }
  MDB_val key = to_val(db_key);
  MDB_val space{layout::kVersionHeader + version.value.size(), nullptr};
  failed_ = mdb_put(txn_, table, &key, &space, MDB_RESERVE);
  if (failed_ == 0) {
    layout::encode_version(static_cast<char*>(space.mv_data), db_key, version);
  }
}

void Group::put_log(Revision revision, std::uint32_t index, const layout::LogRecord& record) {
  if (failed_ != 0) {
    return;
  }
  const std::string db_key = layout::log_key(revision, index);
  MDB_val key = to_val(db_key);
  MDB_val space{layout::kLogHeader + record.key.size() + record.payload.size(), nullptr};
  failed_ = mdb_put(txn_, tables_.log, &key, &space, MDB_RESERVE | MDB_APPEND);
  if (failed_ == 0) {
    layout::encode_log(static_cast<char*>(space.mv_data), db_key, record);
  }
}

}  // namespace kintsugi::store
