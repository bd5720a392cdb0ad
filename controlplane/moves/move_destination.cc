#include <algorithm>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "apiserver/keys.h"
#include "base/strings.h"
#include "base/time.h"
#include "controlplane/catalog/bound_schema.h"
#include "controlplane/internal/names.h"
#include "controlplane/moves/internal/move_row.h"
#include "controlplane/moves/internal/move_rows.h"
#include "controlplane/moves/move_book.h"
#include "controlplane/moves/move_limits.h"
#include "controlplane/moves/move_steps.h"

/// The half of MoveSteps that gets a logical cluster.
namespace kintsugi::controlplane {
namespace {

using krm::Json;

constexpr Duration kIncomingIsKept = seconds(60);
/// Of the rows about a move, the table of resources among them.
constexpr std::size_t kNotes = std::size_t{64} << 10;
/// More than that is read again from the pages.
constexpr std::size_t kMostKept = std::size_t{64} << 20;

constexpr const char* kCannotJump =
    "revisions of the destination are below those of the origin, and a store on etcd cannot jump: "
    "`kintsugi store renew` raises them, and its clients list once more";

/// What arrives gets revisions above all that the origin has told. A store that others write, too,
/// has them by itself, or never.
bool may_go_behind(const store::Store& store, store::Revision at, store::Revision behind) {
  return !store.is_shared() || at > behind;
}

std::string pages_prefix(const std::string& cluster) {
  return apiserver::collection_prefix(kIncoming, kMovesCluster, "") + cluster + ".";
}

std::string page_name(const std::string& cluster, std::int64_t number) {
  std::string digits = std::to_string(number);
  return cluster + "." + std::string(digits.size() < 8 ? 8 - digits.size() : 0, '0') + digits;
}

bool is_schema(std::string_view key) {
  const auto parts = apiserver::parse_key(key);
  return parts && parts->cluster == kBoundCluster &&
         apiserver::parse_stored_resource(parts->resource).group == kBoundGroup;
}

/// Of a transaction of this store, what may be rows of a cluster: besides there are the pages that
/// go, and rows about the move.
std::int64_t most_rows(const store::Store& store) {
  if (store.is_shared()) {
    return static_cast<std::int64_t>(kMostRowsInParts);
  }
  constexpr std::size_t kOthers = 40;
  const std::size_t ops = store.limits().ops;
  return static_cast<std::int64_t>(std::min(kMostMovedRows, ops < kOthers ? 0 : ops - kOthers));
}

/// Whether the pages can become rows of this store, in place of those that are left from an earlier
/// stay.
Expected<bool> has_room(const store::Store& store, const std::string& cluster,
                        const std::unordered_map<std::string, std::string>& rows, std::size_t bytes,
                        std::size_t pages) {
  if (store.is_shared()) {
    return rows.size() <= kMostRowsInParts && bytes <= kMostBytesInParts;
  }
  std::size_t ops_then = rows.size() + pages + 3;
  std::size_t bytes_then = bytes + kNotes;
  const auto old = visit_rows(store, cluster, "", 0, [&](const store::EntryView& entry) {
    ops_then += rows.contains(std::string(entry.key)) ? 0U : 1U;
    bytes_then += entry.value.size();
    return true;
  });
  if (!old) {
    return fail(old.error().clone());
  }
  const store::Limits limits = store.limits();  // of the transaction of `arrive`
  return ops_then <= limits.ops && bytes_then <= limits.value_bytes &&
         rows.size() <= kMostMovedRows && bytes <= kMostMovedBytes;
}

/// Where watches of each resource that has or had rows may go on: at what the origin had told since
/// the last deletion.
Json resume_table(const std::set<std::string>& resources, const Json& asked) {
  const std::int64_t floor = integer_of(asked, "floor");
  Deletions deleted;
  merge(deleted, asked.find("deleted"));
  Deletions out;
  for (const std::string& resource : resources) {
    note_deletion(out, resource, floor);
  }
  for (const auto& [resource, revision] : deleted) {
    note_deletion(out, resource, std::max(floor, revision));
  }
  return to_json(out);
}

}  // namespace

void MoveSteps::drop_pages(const std::string& cluster, std::vector<store::Op>& ops) const {
  store::RangeQuery query;
  query.prefix = pages_prefix(cluster);
  static_cast<void>(params_.store.range(query, [&](const store::EntryView& entry) {
    store::Op op;
    op.type = store::EventType::kDelete;
    op.key = std::string(entry.key);
    ops.push_back(std::move(op));
    return true;
  }));
}

/// All pages that are stored, as rows.
Expected<MoveSteps::Incoming*> MoveSteps::load(const std::string& cluster,
                                               std::string_view migration) {
  auto& slot = incoming_[cluster];
  if (slot == nullptr || slot->migration != migration) {
    slot = std::make_unique<Incoming>();
    slot->migration = migration;
  }
  Incoming& incoming = *slot;
  store::RangeQuery query;
  query.prefix = pages_prefix(cluster);
  query.start = move_key(kIncoming, page_name(cluster, incoming.pages));
  const auto read = params_.store.range(query, [&](const store::EntryView& entry) {
    if (entry.key != move_key(kIncoming, page_name(cluster, incoming.pages))) {
      return false;  // of an earlier try that was late
    }
    const Expected<Json> page = apiserver::decode_stored(entry.value, "", "", entry.modified);
    const Json* entries = page ? page->find("entries") : nullptr;
    incoming.broken = incoming.broken || entries == nullptr;
    ++incoming.pages;
    for (const Json& one : entries == nullptr ? Json::Array() : entries->items()) {
      std::optional<std::string> key = base64_decode(one.text({"key"}));
      const Json* told = one.find("value");
      std::optional<std::string> value =
          told == nullptr ? std::nullopt : base64_decode(told->as_string());
      // Nobody's rows but its own.
      if (!key || (told != nullptr && !value) || !(is_schema(*key) || moves_with(*key, cluster))) {
        incoming.broken = true;
        break;
      }
      if (const auto known = incoming.rows.find(*key); known != incoming.rows.end()) {
        incoming.bytes -= known->second.size();
        incoming.rows.erase(known);
      }
      if (value) {
        incoming.bytes += value->size();
        incoming.rows.emplace(std::move(*key), std::move(*value));
      }
    }
    return !incoming.broken && incoming.rows.size() <= kMostMovedRows &&
           incoming.bytes <= kMostMovedBytes;
  });
  if (!read) {
    return fail(read.error().clone());
  }
  forget_incoming_.start(kIncomingIsKept, [this] { incoming_.clear(); });
  return &incoming;
}

void MoveSteps::begin(const std::string& cluster, const Json& asked, Done done) {
  const Row arrival = row(kArrivals, cluster);
  const bool same = arrival.text("migration") == asked.text({"migration"});
  if (same && arrival.text("phase") == "arrived") {
    done(Json::object(
        {{"arrived", true}, {"revision", static_cast<std::int64_t>(arrival.modified)}}));
    return;
  }
  if (same && arrival.text("phase") != "arriving") {
    done(fail(never(arrival.text("phase") == "abandoned" ? "the move was abandoned"
                                                         : "the copy is ready")));
    return;
  }
  if (!same && arrival.text("phase") == "ready") {  // who knows whether it was given away?
    done(Json::object({{"arrived", false}, {"other", arrival.text("migration")}}));
    return;
  }
  if (params_.reader().get(cluster, kCoreGroup, kLogicalClusters, "", kClusterName)) {
    done(fail(never("the destination has a logical cluster of this name")));
    return;
  }
  incoming_.erase(cluster);
  std::vector<store::Op> ops;
  drop_pages(cluster, ops);
  if (drops_first(&MoveSteps::begin, cluster, asked, arrival, ops, done)) {
    return;
  }
  ops.push_back(put_row(move_key(kArrivals, cluster),
                        named_row(cluster, Json::object({{"migration", asked.text({"migration"})},
                                                         {"from", asked.text({"from"})},
                                                         {"phase", "arriving"}})),
                        arrival.modified));
  commit(std::move(ops), Json::object({{"arrived", false}, {"most", most_rows(params_.store)}}),
         std::move(done));
}

void MoveSteps::take(const std::string& cluster, const Json& asked, Done done) {
  const Row arrival = row(kArrivals, cluster);
  const Json* number = asked.find("number");
  const Json* entries = asked.find("entries");
  if (arrival.text("migration") != asked.text({"migration"}) ||
      arrival.text("phase") != "arriving" || number == nullptr || entries == nullptr) {
    done(fail(never("the logical cluster is not expected")));
    return;
  }
  const std::string name = page_name(cluster, number->as_integer());
  store::Op page =
      put_row(move_key(kIncoming, name), named_row(name, Json::object({{"entries", *entries}})), 0);
  if (const auto known = params_.store.get(page.key); known && known->value.view() == page.value) {
    done(Json::object());  // it was told so, and has not heard it
    return;
  }
  std::vector<store::Op> ops;
  ops.push_back(std::move(page));
  ops.push_back(store::unchanged(move_key(kArrivals, cluster), arrival.modified));
  commit(std::move(ops), Json::object(),
         [this, cluster, migration = std::string(asked.text({"migration"})),
          done = std::move(done)](Expected<Json> stored) {
           if (const auto known = incoming_.find(cluster);
               stored && (known == incoming_.end() || known->second->bytes <= kMostKept)) {
             static_cast<void>(load(cluster, migration));
           }
           done(std::move(stored));
         });
}

void MoveSteps::ready(const std::string& cluster, const Json& asked, Done done) {
  const Row arrival = row(kArrivals, cluster);
  const std::string_view phase = arrival.text("phase");
  if (arrival.text("migration") != asked.text({"migration"})) {
    done(fail(never("the logical cluster is not expected")));
    return;
  }
  const auto behind = static_cast<store::Revision>(integer_of(asked, "revision"));
  if (phase == "ready" || phase == "arrived") {
    done(phase == "ready" && !may_go_behind(params_.store, arrival.modified, behind)
             ? Expected<Json>(fail(never(kCannotJump)))
             : Expected<Json>(Json::object()));
    return;
  }
  if (phase != "arriving") {
    done(fail(never("the move was abandoned")));
    return;
  }
  const Expected<Incoming*> loaded = load(cluster, asked.text({"migration"}));
  if (!loaded) {
    done(fail(loaded.error().clone()));
    return;
  }
  const Incoming& incoming = **loaded;
  const Expected<bool> fits = has_room(params_.store, cluster, incoming.rows, incoming.bytes,
                                       static_cast<std::size_t>(incoming.pages));
  if (!fits || !*fits) {
    done(fits ? fail(never("the logical cluster is too large to be moved to this shard"))
              : fail(fits.error().clone()));
    return;
  }
  RowSum sum;
  std::set<std::string> resources;
  bool has_cluster = false;
  const std::string lc_resource = std::string(kLogicalClusters) + "." + std::string(kCoreGroup);
  for (const auto& [key, value] : incoming.rows) {
    if (!is_schema(key)) {
      sum.add(key, value);
      has_cluster =
          resources.insert(resource_of(key)).first->compare(lc_resource) == 0 || has_cluster;
    }
  }
  if (incoming.broken || !has_cluster || incoming.pages != integer_of(asked, "pages") ||
      !sum.is(asked)) {
    incoming_.erase(cluster);
    done(fail(never("the copy is not what the origin has")));
    return;
  }
  std::vector<store::Op> ops;
  ops.push_back(
      put_row(move_key(kArrivals, cluster),
              named_row(cluster, Json::object({{"migration", asked.text({"migration"})},
                                               {"from", arrival.text("from")},
                                               {"phase", "ready"},
                                               {"behind", integer_of(asked, "revision")},
                                               {"pages", incoming.pages},
                                               {"resume", resume_table(resources, asked)}})),
              arrival.modified));
  commit(std::move(ops), Json::object(),
         [this, behind, done = std::move(done)](Expected<Json> stored) {
           const auto at =
               stored ? static_cast<store::Revision>(integer_of(*stored, "revision")) : 0;
           done(stored && !may_go_behind(params_.store, at, behind)
                    ? Expected<Json>(fail(never(kCannotJump)))
                    : std::move(stored));
         });
}

void MoveSteps::settle(const std::string& cluster, const Json& asked, Done done) {
  const Row row_now = row(kArrivals, cluster);
  const Arrival arrival = row_now.json ? read_arrival(*row_now.json) : Arrival();
  if (arrival.migration != asked.text({"migration"}) || arrival.settled) {
    done(Json::object());  // it was, before the row went or was another move's
    return;
  }
  if (arrival.phase != "arrived") {
    done(fail(never("the logical cluster has not arrived")));
    return;
  }
  std::vector<store::Op> ops;
  drop_pages(cluster, ops);
  if (drops_first(&MoveSteps::settle, cluster, asked, row_now, ops, done)) {
    return;
  }
  Json content = *row_now.json;
  content.erase("metadata");
  content["revision"] = static_cast<std::int64_t>(arrival.revision);
  content["settled"] = true;
  ops.push_back(put_row(move_key(kArrivals, cluster), named_row(cluster, std::move(content)),
                        row_now.modified));
  commit(std::move(ops), Json::object(), std::move(done));
}

void MoveSteps::abandon(const std::string& cluster, const Json& asked, Done done) {
  const Row arrival = row(kArrivals, cluster);
  const bool same = arrival.text("migration") == asked.text({"migration"});
  if (same && (arrival.text("phase") == "arrived" || arrival.text("phase") == "abandoned")) {
    done(Json::object({{"arrived", arrival.text("phase") == "arrived"}}));
    return;
  }
  // Another move has taken its place, or the cluster is here: this one cannot arrive any more.
  if (!same && (arrival.text("phase") == "arriving" || arrival.text("phase") == "ready" ||
                params_.reader().get(cluster, kCoreGroup, kLogicalClusters, "", kClusterName))) {
    done(Json::object({{"arrived", false}}));
    return;
  }
  std::vector<store::Op> ops;
  if (same) {
    incoming_.erase(cluster);
    drop_pages(cluster, ops);
  }
  if (drops_first(&MoveSteps::abandon, cluster, asked, arrival, ops, done)) {
    return;
  }
  ops.push_back(put_row(move_key(kArrivals, cluster),
                        named_row(cluster, Json::object({{"migration", asked.text({"migration"})},
                                                         {"from", asked.text({"from"})},
                                                         {"phase", "abandoned"},
                                                         {"at", unix_seconds()}})),
                        arrival.modified));
  commit(std::move(ops), Json::object({{"arrived", false}}), std::move(done));
}

}  // namespace kintsugi::controlplane
