#include "controlplane/moves/move_steps.h"

#include <charconv>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "apiserver/controllers/controller.h"
#include "apiserver/keys.h"
#include "apiserver/stored_object.h"
#include "base/log.h"
#include "base/strings.h"
#include "base/time.h"
#include "controlplane/catalog/bound_schema.h"
#include "controlplane/catalog/cached_resources.h"
#include "controlplane/internal/names.h"
#include "controlplane/moves/move_book.h"
#include "controlplane/moves/move_limits.h"
#include "krm/annotations.h"
#include "store/raise.h"

namespace kintsugi::controlplane {
namespace {

using krm::Json;

constexpr std::size_t kPageBytes = 512U << 10U;        // of values, but one row at least
constexpr std::int64_t kEndedRowsLive = 24 * 60 * 60;  // [s]
/// So far behind what the origin has told anybody the revisions of the destination begin.
constexpr std::int64_t kRevisionJump = 1'000'000;

Error never(std::string text) { return Error(Errc::kInvalid, std::move(text)); }

Json row_of(const std::string& name, Json content) {
  content.make({"metadata", "name"}) = name;
  return content;
}

store::Op put_op(std::string key, const Json& row, std::optional<store::Revision> expected) {
  store::Op op;
  op.key = std::move(key);
  op.value = apiserver::encode_stored(row);
  op.expected = expected;
  return op;
}

store::Op delete_op(const store::Entry& entry, std::string key) {
  store::Op op;
  op.type = store::EventType::kDelete;
  op.key = std::move(key);
  op.value = std::string(entry.value.view());
  op.expected = entry.modified;
  return op;
}

std::string pages_prefix(const std::string& cluster) {
  return apiserver::collection_prefix(kIncoming, kMovesCluster, "") + cluster + ".";
}

std::string page_name(const std::string& cluster, std::int64_t number) {
  std::string digits = std::to_string(number);
  return cluster + "." + std::string(digits.size() < 8 ? 8 - digits.size() : 0, '0') + digits;
}

bool belongs_to_others(std::string_view resource) {
  return apiserver::parse_stored_resource(resource).group == kinds::kReplicaGroup ||
         !offered_by(resource).empty();
}

/// Calls back for each row of a cluster at or behind a key, until that returns false.
/// @returns false: the store cannot be read.
bool visit_rows(const store::Store& store, const std::string& cluster, std::string start,
                const store::Visitor& visit) {
  bool goes_on = true;
  while (goes_on) {
    std::string resource;
    store::RangeQuery first;
    first.start = start;
    const auto found = store.range(first, [&](const store::EntryView& entry) {
      resource = std::string(entry.key.substr(0, entry.key.find('\0')));
      return false;
    });
    if (!found) {
      return false;
    }
    if (resource.empty()) {
      return true;
    }
    if (!belongs_to_others(resource)) {
      store::RangeQuery rows;
      rows.prefix = apiserver::collection_prefix(resource, cluster, "");
      rows.start = std::max(rows.prefix, start);
      const auto read = store.range(rows, [&](const store::EntryView& entry) {
        goes_on = visit(entry);
        return goes_on;
      });
      if (!read) {
        return false;
      }
    }
    start = resource + '\x01';  // behind every key of this resource
  }
  return true;
}

}  // namespace

bool can_move(std::string_view cluster) noexcept {
  return !cluster.empty() && cluster != kRootCluster &&
         cluster.find(':') == std::string_view::npos && cluster != "*";
}

struct MoveSteps::Row {
  std::optional<Json> json;
  store::Revision modified = 0;

  [[nodiscard]] std::string_view text(std::string_view member) const {
    return json ? json->text({member}) : std::string_view();
  }
};

MoveSteps::Row MoveSteps::row(std::string_view resource, const std::string& cluster) const {
  const Expected<store::Entry> entry = params_.store.get(move_key(resource, cluster));
  if (!entry) {
    return {};
  }
  Expected<Json> json = apiserver::decode_stored(entry->value.view(), "", "", entry->modified);
  return {json ? std::optional<Json>(std::move(*json)) : std::nullopt, entry->modified};
}

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

void MoveSteps::commit(std::vector<store::Op> ops, Json answer, Done done) {
  params_.store.commit(
      std::move(ops), [&loop = loop_, alive = alive_.weak(), answer = std::move(answer),
                       done = std::move(done)](Expected<store::CommitResult> result) mutable {
        auto kept = std::make_shared<Expected<store::CommitResult>>(std::move(result));
        loop.post([alive, kept, answer = std::move(answer), done = std::move(done)]() mutable {
          if (!alive) {
            return;
          }
          if (!*kept) {
            done(fail(std::move(kept->error())));
          } else if ((*kept)->conflict || (*kept)->excess) {
            done(fail(Errc::kConflict, "another step was faster"));
          } else {
            if (answer.find("revision") == nullptr) {
              answer["revision"] = static_cast<std::int64_t>((*kept)->revision);
            }
            done(std::move(answer));
          }
        });
      });
}

void MoveSteps::run(const std::string& cluster, const Json& asked, Done done) {
  struct Step {
    std::string_view name;
    void (MoveSteps::*function)(const std::string&, const Json&, Done);
  };
  static constexpr Step kSteps[] = {
      {"begin", &MoveSteps::begin},    {"fence", &MoveSteps::fence},
      {"page", &MoveSteps::page},      {"take", &MoveSteps::take},
      {"arrive", &MoveSteps::arrive},  {"leave", &MoveSteps::leave},
      {"settle", &MoveSteps::settle},  {"abandon", &MoveSteps::abandon},
      {"release", &MoveSteps::release}};
  if (!can_move(cluster) || asked.text({"migration"}).empty()) {
    done(fail(never("the logical cluster cannot be moved")));
    return;
  }
  for (const Step& step : kSteps) {
    if (step.name == asked.text({"step"})) {
      (this->*step.function)(cluster, asked, std::move(done));
      return;
    }
  }
  done(fail(never("no such step")));
}

void MoveSteps::begin(const std::string& cluster, const Json& asked, Done done) {
  const Row arrival = row(kArrivals, cluster);
  const bool same = arrival.text("migration") == asked.text({"migration"});
  if (same && arrival.text("phase") == "arrived") {
    done(Json::object(
        {{"arrived", true}, {"revision", static_cast<std::int64_t>(arrival.modified)}}));
    return;
  }
  if (same && arrival.text("phase") == "abandoned") {
    done(fail(never("the move was abandoned")));
    return;
  }
  if (params_.reader().get(cluster, kCoreGroup, kLogicalClusters, "", kClusterName)) {
    done(fail(never("the destination has a logical cluster of this name")));
    return;
  }
  std::vector<store::Op> ops;
  drop_pages(cluster, ops);
  ops.push_back(put_op(move_key(kArrivals, cluster),
                       row_of(cluster, Json::object({{"migration", asked.text({"migration"})},
                                                     {"from", asked.text({"from"})},
                                                     {"phase", "arriving"}})),
                       arrival.modified));
  commit(std::move(ops), Json::object({{"arrived", false}}), std::move(done));
}

void MoveSteps::fence(const std::string& cluster, const Json& asked, Done done) {
  const Row fence = row(kFences, cluster);
  const auto answer = [this] {
    const auto current = static_cast<std::int64_t>(params_.store.current());
    return Json::object({{"revision", current + kRevisionJump}});
  };
  const Fence known = fence.json ? read_fence(*fence.json) : Fence();
  if (fence.json && known.migration == asked.text({"migration"})) {
    Json out = answer();
    out["left"] = known.left;
    done(std::move(out));
    return;
  }
  const std::optional<Json> object =
      params_.reader().get(cluster, kCoreGroup, kLogicalClusters, "", kClusterName);
  if (!object) {
    done(fail(never("the logical cluster is not here")));
    return;
  }
  if (fence.json && !known.left) {
    done(fail(never("the logical cluster is being moved by another migration")));
    return;
  }
  if (apiserver::is_deleted(*object) || object->text({"status", "phase"}) != "Ready") {
    done(fail(never("the logical cluster is not Ready")));
    return;
  }
  std::vector<store::Op> ops;
  ops.push_back(put_op(move_key(kFences, cluster),
                       row_of(cluster, Json::object({{"migration", asked.text({"migration"})},
                                                     {"to", asked.text({"to"})}})),
                       fence.modified));
  log_info("a logical cluster takes no writes before it moves",
           {{"cluster", cluster}, {"to", std::string(asked.text({"to"}))}});
  commit(std::move(ops), answer(), [answer, done = std::move(done)](Expected<Json> stored) {
    done(stored ? Expected<Json>(answer()) : std::move(stored));  // with what was told until now
  });
}

void MoveSteps::page(const std::string& cluster, const Json& asked, Done done) {
  const Row fence = row(kFences, cluster);
  if (!fence.json || fence.text("migration") != asked.text({"migration"}) ||
      read_fence(*fence.json).left) {
    done(fail(never("the logical cluster takes writes")));
    return;
  }
  const std::string start = base64_decode(asked.text({"continue"})).value_or("");
  Json entries = Json::array();
  std::size_t bytes = 0;
  const auto add = [&](std::string_view key, std::string_view value) {
    entries.push_back(Json::object({{"key", base64_encode(key)}, {"value", base64_encode(value)}}));
    bytes += value.size();
  };
  if (start.empty()) {  // what its bindings are served by
    const auto object =
        params_.reader().get(cluster, kCoreGroup, kLogicalClusters, "", kClusterName);
    if (!object || apiserver::is_deleted(*object)) {
      done(fail(never("the logical cluster is being deleted")));
      return;
    }
    std::set<std::string> uids;
    params_.reader().list(cluster, kApisGroup, kApiBindings, "", [&](const Json& binding) {
      const Json* bound = binding.at({"status", "boundResources"});
      for (const Json& one : bound == nullptr ? Json::Array() : bound->items()) {
        uids.emplace(one.text({"schema", "UID"}));
      }
      return true;
    });
    for (const std::string& uid : uids) {
      const auto key = apiserver::object_key(
          apiserver::stored_resource(kBoundGroup, kApiResourceSchemas), kBoundCluster, "", uid);
      if (const auto entry = params_.store.get(key.value_or("")); key && entry) {
        add(*key, entry->value.view());
      }
    }
  }
  std::string next;
  const bool read = visit_rows(params_.store, cluster, start, [&](const store::EntryView& entry) {
    if (bytes >= kPageBytes && entries.size() > 0) {
      next = std::string(entry.key);
      return false;
    }
    add(entry.key, entry.value);
    return true;
  });
  if (!read) {
    done(fail(Errc::kIo, "the store cannot be read"));
    return;
  }
  done(Json::object({{"entries", std::move(entries)}, {"continue", base64_encode(next)}}));
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
  std::vector<store::Op> ops;
  ops.push_back(put_op(move_key(kIncoming, name),
                       row_of(name, Json::object({{"entries", *entries}})), std::nullopt));
  ops.push_back(store::unchanged(move_key(kArrivals, cluster), arrival.modified));
  commit(std::move(ops), Json::object(), std::move(done));
}

void MoveSteps::arrive(const std::string& cluster, const Json& asked, Done done) {
  const Row arrival = row(kArrivals, cluster);
  if (arrival.text("migration") != asked.text({"migration"})) {
    done(fail(never("the logical cluster is not expected")));
    return;
  }
  if (arrival.text("phase") == "arrived") {
    done(Json::object({{"revision", static_cast<std::int64_t>(arrival.modified)}}));
    return;
  }
  if (arrival.text("phase") != "arriving") {
    done(fail(never("the move was abandoned")));
    return;
  }
  std::vector<store::Op> ops;
  std::set<std::string, std::less<>> keys;
  std::size_t bytes = 0;
  std::int64_t pages = 0;
  bool broken = false, has_cluster = false;
  const std::string lc_resource = apiserver::stored_resource(kCoreGroup, kLogicalClusters);
  const auto add = [&](const Json& entry) {
    std::optional<std::string> key = base64_decode(entry.text({"key"}));
    std::optional<std::string> value = base64_decode(entry.text({"value"}));
    const auto parts = key ? apiserver::parse_key(*key) : std::nullopt;
    if (!parts || !value) {
      broken = true;
      return;
    }
    const bool is_schema = parts->cluster == kBoundCluster &&
                           apiserver::parse_stored_resource(parts->resource).group == kBoundGroup;
    if (is_schema && params_.store.get(*key)) {
      return;
    }
    if ((!is_schema && (parts->cluster != cluster || belongs_to_others(parts->resource))) ||
        !keys.insert(*key).second) {
      broken = true;  // nobody's rows but its own
      return;
    }
    if (!is_schema && parts->resource == lc_resource) {
      Expected<Json> object = apiserver::decode_stored(*value, "", "", 0);
      if (!object) {
        broken = true;
        return;
      }
      object->make({"metadata", "annotations", krm::kShardAnnotation}) = params_.shard;
      value = apiserver::encode_stored(*object);
      has_cluster = true;
    }
    bytes += value->size();
    store::Op op;
    op.key = std::move(*key);
    op.value = std::move(*value);
    ops.push_back(std::move(op));
  };
  store::RangeQuery query;
  query.prefix = pages_prefix(cluster);
  const auto read = params_.store.range(query, [&](const store::EntryView& entry) {
    const Expected<Json> page = apiserver::decode_stored(entry.value, "", "", 0);
    const Json* entries = page ? page->find("entries") : nullptr;
    broken = broken || entries == nullptr;
    ++pages;
    for (const Json& one : entries == nullptr ? Json::Array() : entries->items()) {
      add(one);
    }
    return !broken && ops.size() <= kMostMovedRows && bytes <= kMostMovedBytes;
  });
  const Json* wanted = asked.find("pages");
  const Json* revision = asked.find("revision");
  if (ops.size() > kMostMovedRows || bytes > kMostMovedBytes) {
    done(fail(never("the logical cluster is too large to be moved")));
    return;
  }
  if (!read || broken || !has_cluster || revision == nullptr || wanted == nullptr ||
      wanted->as_integer() != pages) {
    done(fail(never("the copy is not complete")));
    return;
  }
  const auto rows = static_cast<std::int64_t>(ops.size());
  ops.push_back(store::raise_to(static_cast<store::Revision>(revision->as_integer())));
  // What was left here when it was here before.
  static_cast<void>(visit_rows(params_.store, cluster, "", [&](const store::EntryView& entry) {
    if (keys.find(entry.key) == keys.end()) {
      store::Op op;
      op.type = store::EventType::kDelete;
      op.key = std::string(entry.key);
      op.value = std::string(entry.value);
      ops.push_back(std::move(op));
    }
    return true;
  }));
  drop_pages(cluster, ops);
  if (const auto entry = params_.store.get(move_key(kFences, cluster))) {
    ops.push_back(delete_op(*entry, move_key(kFences, cluster)));
  }
  ops.push_back(put_op(move_key(kArrivals, cluster),
                       row_of(cluster, Json::object({{"migration", asked.text({"migration"})},
                                                     {"from", arrival.text("from")},
                                                     {"phase", "arrived"},
                                                     {"at", unix_seconds()}})),
                       arrival.modified));
  log_info("a logical cluster arrives", {{"cluster", cluster},
                                         {"from", std::string(arrival.text("from"))},
                                         {"rows", static_cast<std::uint64_t>(rows)}});
  commit(std::move(ops), Json::object({{"rows", rows}}), std::move(done));
}

void MoveSteps::leave(const std::string& cluster, const Json& asked, Done done) {
  const Row fence = row(kFences, cluster);
  const std::string key =
      apiserver::object_key(apiserver::stored_resource(kCoreGroup, kLogicalClusters), cluster, "",
                            kClusterName)
          .value_or("");
  if (!fence.json && !params_.store.get(key)) {
    done(Json::object());  // long ago
    return;
  }
  if (!fence.json || fence.text("migration") != asked.text({"migration"})) {
    done(fail(never("the logical cluster was not to leave")));
    return;
  }
  if (read_fence(*fence.json).left) {
    done(Json::object());
    return;
  }
  std::vector<store::Op> ops;
  if (const auto entry = params_.store.get(key)) {
    ops.push_back(delete_op(*entry, key));
  }
  ops.push_back(put_op(move_key(kFences, cluster),
                       row_of(cluster, Json::object({{"migration", fence.text("migration")},
                                                     {"to", fence.text("to")},
                                                     {"left", true},
                                                     {"at", unix_seconds()}})),
                       fence.modified));
  log_info("a logical cluster has left",
           {{"cluster", cluster}, {"to", std::string(fence.text("to"))}});
  commit(std::move(ops), Json::object(), std::move(done));
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
  ops.push_back(put_op(
      move_key(kArrivals, cluster),
      row_of(cluster, Json::object({{"migration", arrival.migration},
                                    {"from", arrival.from},
                                    {"phase", arrival.phase},
                                    {"at", arrival.at},
                                    {"revision", static_cast<std::int64_t>(arrival.revision)},
                                    {"settled", true}})),
      row_now.modified));
  commit(std::move(ops), Json::object(), std::move(done));
}

void MoveSteps::drop_ended(std::int64_t now) {
  const auto visit = [this](std::string_view resource, const auto& has_ended) {
    store::RangeQuery query;
    query.prefix = apiserver::collection_prefix(resource, kMovesCluster, "");
    std::vector<store::Op> ops;
    static_cast<void>(params_.store.range(query, [&](const store::EntryView& entry) {
      const Expected<Json> row = apiserver::decode_stored(entry.value, "", "", entry.modified);
      if (row && has_ended(*row)) {
        ops.push_back({store::EventType::kDelete, std::string(entry.key), std::string(entry.value),
                       entry.modified});
      }
      return true;
    }));
    for (store::Op& op : ops) {  // each for itself: one that has changed keeps no other
      commit({std::move(op)}, Json::object(), [](const Expected<Json>&) {});
    }
  };
  visit(kArrivals, [&](const Json& row) {
    const Arrival arrival = read_arrival(row);
    const bool is_known = arrival.phase == "abandoned" ||
                          (arrival.settled && arrival.revision <= params_.store.compacted());
    return is_known && arrival.at + kEndedRowsLive <= now;
  });
  visit(kFences, [&](const Json& row) {
    const Fence fence = read_fence(row);
    bool is_empty = true;
    return fence.left && fence.at + kEndedRowsLive <= now &&
           visit_rows(params_.store, std::string(row.text({"metadata", "name"})), "",
                      [&](const store::EntryView&) { return is_empty = false; }) &&
           is_empty;
  });
}

void MoveSteps::abandon(const std::string& cluster, const Json& asked, Done done) {
  const Row arrival = row(kArrivals, cluster);
  const bool same = arrival.text("migration") == asked.text({"migration"});
  if (same && arrival.text("phase") != "arriving") {
    done(Json::object({{"arrived", arrival.text("phase") == "arrived"}}));
    return;
  }
  // Another move has taken its place, or the cluster is here: this one cannot arrive any more.
  if (!same && (arrival.text("phase") == "arriving" ||
                params_.reader().get(cluster, kCoreGroup, kLogicalClusters, "", kClusterName))) {
    done(Json::object({{"arrived", false}}));
    return;
  }
  std::vector<store::Op> ops;
  if (same) {
    drop_pages(cluster, ops);
  }
  ops.push_back(put_op(move_key(kArrivals, cluster),
                       row_of(cluster, Json::object({{"migration", asked.text({"migration"})},
                                                     {"from", asked.text({"from"})},
                                                     {"phase", "abandoned"},
                                                     {"at", unix_seconds()}})),
                       arrival.modified));
  commit(std::move(ops), Json::object({{"arrived", false}}), std::move(done));
}

void MoveSteps::release(const std::string& cluster, const Json& asked, Done done) {
  const Expected<store::Entry> entry = params_.store.get(move_key(kFences, cluster));
  const Row fence = row(kFences, cluster);
  if (!entry || fence.text("migration") != asked.text({"migration"})) {
    done(Json::object());
    return;
  }
  if (read_fence(*fence.json).left) {
    done(fail(never("the logical cluster has left")));
    return;
  }
  std::vector<store::Op> ops;
  ops.push_back(delete_op(*entry, move_key(kFences, cluster)));
  commit(std::move(ops), Json::object(), std::move(done));
}

}  // namespace kintsugi::controlplane
