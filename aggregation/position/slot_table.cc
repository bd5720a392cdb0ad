#include "aggregation/position/slot_table.h"

#include <algorithm>
#include <utility>

#include "krm/other_members.h"

namespace kintsugi::aggregation {
namespace {

using krm::Json;

constexpr std::int64_t kDay = 24 * 3600;  ///< [s]

bool contains(const std::vector<std::string>& list, std::string_view text) {
  return std::find(list.begin(), list.end(), text) != list.end();
}

std::int64_t integer(const Json& object, std::string_view key) {
  const Json* member = object.find(key);
  return member == nullptr ? 0 : member->as_integer();
}

/// "uids": all of them; else "set": those that differ from the table before, by their slots.
bool read_uids(const Json& table, const std::vector<SlotTable>& before,
               std::vector<std::string>& out) {
  if (const Json* uids = table.find("uids")) {
    for (const Json& uid : uids->items()) {
      out.emplace_back(uid.as_string());
    }
    return true;
  }
  out = before.empty() ? std::vector<std::string>() : before.back().uids;
  if (const Json* set = table.find("set")) {
    for (const Json& each : set->items()) {
      const Json::Array& pair = each.items();
      const std::int64_t slot = pair.size() == 2 ? pair[0].as_integer() : -1;
      if (slot < 0 || static_cast<std::size_t>(slot) > out.size()) {
        return false;
      }
      if (static_cast<std::size_t>(slot) == out.size()) {
        out.emplace_back();
      }
      out[static_cast<std::size_t>(slot)] = pair[1].as_string();
    }
  }
  return true;
}

/// As read_uids() reads it: a thousand shards are 40 kB, and what one change makes of them is not.
void write_uids(Json& out, const std::vector<std::string>& uids,
                const std::vector<std::string>& before) {
  Json set = Json::array();
  for (std::size_t slot = 0; slot < uids.size(); ++slot) {
    if (slot >= before.size() || uids[slot] != before[slot]) {
      set.push_back(Json::array({Json(static_cast<std::int64_t>(slot)), Json(uids[slot])}));
    }
  }
  if (uids.size() >= before.size() && set.items().size() < uids.size()) {
    out["set"] = std::move(set);
    return;
  }
  Json all = Json::array();
  for (const std::string& uid : uids) {
    all.push_back(uid);
  }
  out["uids"] = std::move(all);
}

}  // namespace

SlotHistory::SlotHistory() : tables_(1) {}

Expected<SlotHistory> SlotHistory::from_json(const Json& record) {
  SlotHistory out;
  out.tables_.clear();
  const Json* tables = record.find("generations");
  const Json* present = record.find("present");
  if (tables == nullptr || present == nullptr) {
    return fail(Errc::kCorrupt, "the slot table has no generations");
  }
  for (const Json& each : tables->items()) {
    SlotTable table;
    table.generation = static_cast<std::uint32_t>(integer(each, "generation"));
    table.made_at = integer(each, "madeAt");
    if (!read_uids(each, out.tables_, table.uids)) {
      return fail(Errc::kCorrupt, "the slot table has a slot behind its end");
    }
    const bool rises = out.tables_.empty() || out.tables_.back().generation < table.generation;
    if (!rises || table.generation == 0 || table.generation > kMaxGeneration) {
      return fail(Errc::kCorrupt, "the slot table has generations out of order");
    }
    out.tables_.push_back(std::move(table));
  }
  for (const Json& each : present->items()) {
    out.present_.push_back(each.as_bool());
  }
  if (out.tables_.empty() || out.present_.size() != out.tables_.back().uids.size()) {
    return fail(Errc::kCorrupt, "the slot table does not say which shards are there");
  }
  if (const Json* labels = record.find("labels")) {
    for (const krm::JsonMember& member : labels->members()) {
      out.labels_.emplace(member.key, member.value.as_string());
    }
  }
  if (const Json* rolled_back = record.find("rolledBack")) {
    for (const krm::JsonMember& member : rolled_back->members()) {
      out.rolled_back_.emplace(member.key, static_cast<std::uint32_t>(member.value.as_integer()));
    }
  }
  out.era_ = static_cast<std::uint32_t>(integer(record, "era"));
  out.others_ =
      krm::other_members(record, {"generations", "present", "era", "labels", "rolledBack"});
  return out;
}

Json SlotHistory::to_json() const {
  Json tables = Json::array();
  const std::vector<std::string> none;
  const std::vector<std::string>* before = &none;
  for (const SlotTable& table : tables_) {
    Json one = Json::object({{"generation", Json(static_cast<std::int64_t>(table.generation))},
                             {"madeAt", Json(table.made_at)}});
    write_uids(one, table.uids, *before);
    before = &table.uids;
    tables.push_back(std::move(one));
  }
  Json present = Json::array();
  for (const bool each : present_) {
    present.push_back(Json(each));
  }
  Json record = Json::object({{"generations", std::move(tables)},
                              {"present", std::move(present)},
                              {"era", Json(static_cast<std::int64_t>(era_))}});
  for (const auto& [uid, text] : labels_) {
    record.make({"labels", uid}) = text;
  }
  for (const auto& [uid, generation] : rolled_back_) {
    record.make({"rolledBack", uid}) = Json(static_cast<std::int64_t>(generation));
  }
  krm::add_members(record, others_);
  return record;
}

SlotHistory SlotHistory::restored(std::uint32_t later) const {
  SlotHistory out = *this;
  out.era_ += later;
  return out;
}

std::optional<SlotHistory> SlotHistory::changed(const SlotChange& change, std::int64_t now,
                                                std::size_t kept) const {
  SlotTable next = current();
  std::vector<bool> present(next.uids.size());
  for (std::size_t slot = 0; slot < next.uids.size(); ++slot) {
    present[slot] = contains(change.present, next.uids[slot]);
  }
  for (const std::string& uid : change.present) {
    if (contains(next.uids, uid)) {
      continue;
    }
    const auto free = std::find(present_.begin(), present_.end(), false);
    // A slot that this change frees is taken next time: its last cursors must still say whose it
    // was.
    std::size_t slot = next.uids.size();
    for (auto at = free; at != present_.end(); at = std::find(at + 1, present_.end(), false)) {
      const auto candidate = static_cast<std::size_t>(at - present_.begin());
      if (!present[candidate]) {
        slot = candidate;
        break;
      }
    }
    if (slot == next.uids.size()) {
      next.uids.push_back(uid);
      present.push_back(true);
    } else {
      next.uids[slot] = uid;
      present[slot] = true;
    }
  }
  if (next.uids == current().uids && present == present_ && change.labels == labels_ &&
      change.rolled_back.empty()) {
    return std::nullopt;
  }
  SlotHistory out = *this;
  out.present_ = std::move(present);
  out.labels_ = change.labels;
  next.made_at = now;
  const bool first = tables_.size() == 1 && current().uids.empty();
  if (first) {
    out.tables_.clear();
  } else if (++next.generation > kMaxGeneration) {
    next.generation = 1;
    out.tables_.clear();
    out.rolled_back_.clear();
    ++out.era_;
  }
  for (const std::string& uid : change.rolled_back) {
    out.rolled_back_[uid] = next.generation;
  }
  out.tables_.push_back(std::move(next));
  while (out.tables_.size() > kept && out.tables_.front().made_at < now - kDay) {
    out.tables_.erase(out.tables_.begin());
  }
  return out;
}

std::optional<SlotHistory> SlotHistory::fixed(const SlotChange& change, std::uint32_t generation,
                                              std::int64_t now, std::size_t kept) const {
  const bool is_whole =
      std::all_of(present_.begin(), present_.end(), [](bool each) { return each; });
  if (current().generation == generation && current().uids == change.present && is_whole) {
    return std::nullopt;
  }
  SlotHistory out;
  out.others_ = others_;
  if (current().generation < generation && !current().uids.empty()) {
    out.tables_ = tables_;
    out.rolled_back_ = rolled_back_;
  } else {
    out.tables_.clear();
  }
  out.tables_.push_back({generation, change.present, now});
  if (out.tables_.size() > kept) {
    out.tables_.erase(out.tables_.begin());
  }
  out.present_.assign(change.present.size(), true);
  out.labels_ = change.labels;
  for (const std::string& uid : change.rolled_back) {
    out.rolled_back_[uid] = generation;
  }
  return out;
}

const SlotTable* SlotHistory::find(std::uint32_t generation) const noexcept {
  const auto found = std::lower_bound(
      tables_.begin(), tables_.end(), generation,
      [](const SlotTable& table, std::uint32_t wanted) { return table.generation < wanted; });
  return found == tables_.end() || found->generation != generation ? nullptr : &*found;
}

std::optional<std::size_t> SlotHistory::slot_of(std::string_view uid) const noexcept {
  const std::vector<std::string>& uids = current().uids;
  for (std::size_t slot = 0; slot < uids.size(); ++slot) {
    if (present_[slot] && uids[slot] == uid) {
      return slot;
    }
  }
  return std::nullopt;
}

std::optional<std::size_t> SlotHistory::slot_of(std::string_view uid,
                                                std::size_t slot) const noexcept {
  const std::vector<std::string>& uids = current().uids;
  return slot < uids.size() && present_[slot] && uids[slot] == uid ? slot : slot_of(uid);
}

bool SlotHistory::rolled_back_since(std::string_view uid, std::uint32_t generation) const noexcept {
  const auto found = rolled_back_.find(uid);
  return found != rolled_back_.end() && found->second > generation;
}

}  // namespace kintsugi::aggregation
