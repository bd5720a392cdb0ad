#include <algorithm>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "apiserver/controllers/controller.h"
#include "apiserver/keys.h"
#include "base/log.h"
#include "base/strings.h"
#include "base/time.h"
#include "controlplane/catalog/bound_schema.h"
#include "controlplane/internal/names.h"
#include "controlplane/moves/internal/move_row.h"
#include "controlplane/moves/internal/move_rows.h"
#include "controlplane/moves/move_book.h"
#include "controlplane/moves/move_limits.h"
#include "controlplane/moves/move_steps.h"

/// The half of MoveSteps that gives a logical cluster away.
namespace kintsugi::controlplane {
namespace {

using krm::Json;

constexpr std::size_t kPageBytes = 512U << 10U;  // of values, but one row at least
constexpr std::size_t kPageRows = 500;
constexpr std::size_t kEventsAtOnce = 2'000;
/// Deletions are looked for among that many revisions before a copy begins: who was away for longer
/// lists again.
constexpr std::int64_t kPast = 50'000;
/// So far behind what the origin has told anybody the revisions of the destination begin.
constexpr std::int64_t kRevisionJump = 1'000'000;

Json entry_of(std::string_view key, std::string_view value) {
  return Json::object({{"key", base64_encode(key)}, {"value", base64_encode(value)}});
}

/// What was written to a cluster in a part of the history.
struct Written {
  std::unordered_map<std::string, std::optional<std::string>> rows;  ///< nullopt: deleted
  Deletions deleted;
  store::Revision complete = 0;
  bool more = false;
};

Expected<Written> read_changes(const store::Store& store, const std::string& cluster,
                               store::Revision after) {
  const auto changes = store.changes("", after, kEventsAtOnce);
  if (!changes) {
    return fail(changes.error().clone());
  }
  Written out;
  out.complete = changes->complete_to;
  std::size_t bytes = 0;
  store::Revision last = 0;
  for (const store::Event& event : changes->events) {
    if (bytes >= kPageBytes && event.revision != last) {
      out.complete = last;
      break;
    }
    last = event.revision;
    if (!moves_with(event.key, cluster)) {
      continue;
    }
    std::optional<std::string>& row = out.rows[event.key];
    if (event.type == store::EventType::kDelete) {
      row.reset();
      note_deletion(out.deleted, resource_of(event.key), static_cast<std::int64_t>(event.revision));
    } else {
      row = std::string(event.value.view());
      bytes += row->size();
    }
  }
  out.more = out.complete < store.current();
  return out;
}

std::string cluster_key(const std::string& cluster) {
  return apiserver::object_key(apiserver::stored_resource(kCoreGroup, kLogicalClusters), cluster,
                               "", kClusterName)
      .value_or("");
}

/// An answer where history is gone that a copy needs: it begins anew.
Expected<Json> gone_or(const Error& error) {
  if (error.code() == Errc::kCompacted) {
    return Json::object({{"gone", true}});
  }
  return fail(error.clone());
}

Json fence_content(const Fence& fence) {
  Json out = Json::object({{"migration", fence.migration}, {"to", fence.to}});
  if (fence.ends) {
    out["ends"] = true;
  }
  if (fence.moved) {
    out["moved"] = true;
  }
  if (fence.left) {
    out["left"] = true;
    out["at"] = fence.at;
  }
  return out;
}

}  // namespace

/// What the cluster's bindings are served by.
void MoveSteps::add_schemas(const std::string& cluster, Json& entries) const {
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
      entries.push_back(entry_of(*key, entry->value.view()));
    }
  }
}

void MoveSteps::page(const std::string& cluster, const Json& asked, Done done) {
  const std::string start = base64_decode(asked.text({"continue"})).value_or("");
  auto at = static_cast<store::Revision>(integer_of(asked, "at"));
  at = at == 0 ? params_.store.current() : at;
  const auto object = params_.reader().get(cluster, kCoreGroup, kLogicalClusters, "", kClusterName);
  if (!object || apiserver::is_deleted(*object)) {
    done(fail(never("the logical cluster is not here, or is being deleted")));
    return;
  }
  Json entries = Json::array();
  std::size_t bytes = 0;
  if (start.empty()) {
    add_schemas(cluster, entries);
  }
  std::string next;
  const auto read =
      visit_rows(params_.store, cluster, start, at, [&](const store::EntryView& entry) {
        if (bytes >= kPageBytes || entries.size() >= kPageRows) {
          next = std::string(entry.key);
          return false;
        }
        entries.push_back(entry_of(entry.key, entry.value));
        bytes += entry.value.size();
        return true;
      });
  if (!read) {
    done(gone_or(read.error()));
    return;
  }
  done(Json::object({{"entries", std::move(entries)},
                     {"continue", base64_encode(next)},
                     {"at", static_cast<std::int64_t>(at)},
                     {"bytes", static_cast<std::int64_t>(bytes)}}));
}

void MoveSteps::past(const std::string& cluster, const Json& asked, Done done) {
  const std::int64_t until = integer_of(asked, "until");
  std::int64_t floor = integer_of(asked, "floor");
  std::int64_t after = integer_of(asked, "after");
  const auto compacted = static_cast<std::int64_t>(params_.store.compacted());
  if (floor == 0 || after < compacted) {  // the first call, or history went meanwhile
    const Row arrival = row(kArrivals, cluster);
    const Arrival known = arrival.json ? read_arrival(*arrival.json) : Arrival();
    const std::int64_t came =
        known.phase == "arrived" ? static_cast<std::int64_t>(known.revision) : 0;
    floor = after = std::max({compacted, came, until - kPast, std::int64_t{1}});
  }
  Expected<Written> written =
      read_changes(params_.store, cluster, static_cast<store::Revision>(after));
  if (!written) {
    done(fail(written.error().clone()));
    return;
  }
  done(Json::object({{"floor", floor},
                     {"deleted", to_json(written->deleted)},
                     {"complete", static_cast<std::int64_t>(written->complete)}}));
}

void MoveSteps::follow(const std::string& cluster, const Json& asked, Done done) {
  const Row fence_row = row(kFences, cluster);
  Expected<Written> written = read_changes(
      params_.store, cluster, static_cast<store::Revision>(integer_of(asked, "after")));
  if (!written) {
    done(gone_or(written.error()));
    return;
  }
  Json entries = Json::array();
  bool binds = false;
  const std::string bindings = std::string(kApiBindings) + "." + std::string(kApisGroup);
  for (const auto& [key, value] : written->rows) {
    binds = binds || resource_of(key) == bindings;
    entries.push_back(value ? entry_of(key, *value) : Json::object({{"key", base64_encode(key)}}));
  }
  if (binds) {
    add_schemas(cluster, entries);
  }
  const auto changed = static_cast<std::int64_t>(written->rows.size());
  Json out = Json::object({{"entries", std::move(entries)},
                           {"deleted", to_json(written->deleted)},
                           {"changed", changed},
                           {"complete", static_cast<std::int64_t>(written->complete)},
                           {"more", written->more}});
  const bool is_fenced = fence_row.json && fence_row.text("migration") == asked.text({"migration"});
  if (is_fenced && written->complete >= fence_row.modified) {
    RowSum sum;
    const auto read = visit_rows(params_.store, cluster, "", 0, [&](const store::EntryView& entry) {
      sum.add(entry.key, entry.value);
      return true;
    });
    if (!read) {
      done(fail(read.error().clone()));
      return;
    }
    sum.put(out);
  }
  done(std::move(out));
}

void MoveSteps::fence(const std::string& cluster, const Json& asked, Done done) {
  const Row fence = row(kFences, cluster);
  const auto answer = [this, cluster] {
    const auto current = static_cast<std::int64_t>(params_.store.current());
    return Json::object({{"revision", current + kRevisionJump},
                         {"at", static_cast<std::int64_t>(row(kFences, cluster).modified)}});
  };
  const Fence known = fence.json ? read_fence(*fence.json) : Fence();
  if (fence.json && known.migration == asked.text({"migration"})) {
    done(answer());
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
  Fence now;
  now.migration = asked.text({"migration"});
  now.to = asked.text({"to"});
  now.ends = true;
  std::vector<store::Op> ops;
  ops.push_back(
      put_row(move_key(kFences, cluster), named_row(cluster, fence_content(now)), fence.modified));
  log_info("a logical cluster takes no writes before it moves",
           {{"cluster", cluster}, {"to", now.to}});
  commit(std::move(ops), answer(), [answer, done = std::move(done)](Expected<Json> stored) {
    done(stored ? Expected<Json>(answer()) : std::move(stored));  // with what was told until now
  });
}

void MoveSteps::give(const std::string& cluster, const Json& asked, Done done) {
  const Row row_now = row(kFences, cluster);
  Fence fence = row_now.json ? read_fence(*row_now.json) : Fence();
  if (!row_now.json || fence.migration != asked.text({"migration"})) {
    done(fail(never("the logical cluster takes writes")));
    return;
  }
  if (fence.moved) {
    done(Json::object({{"moved", true}}));
    return;
  }
  // Another fence than the one behind which the copy was completed: writes were taken in between.
  if (static_cast<std::int64_t>(row_now.modified) != integer_of(asked, "at")) {
    done(fail(never("the logical cluster took writes meanwhile")));
    return;
  }
  fence.moved = true;
  std::vector<store::Op> ops;
  ops.push_back(put_row(move_key(kFences, cluster), named_row(cluster, fence_content(fence)),
                        row_now.modified));
  log_info("a logical cluster is another shard's now", {{"cluster", cluster}, {"to", fence.to}});
  commit(std::move(ops), Json::object({{"moved", true}}), std::move(done));
}

void MoveSteps::leave(const std::string& cluster, const Json& asked, Done done) {
  const Row row_now = row(kFences, cluster);
  const std::string key = cluster_key(cluster);
  if (!row_now.json && !params_.store.get(key)) {
    done(Json::object());  // long ago
    return;
  }
  Fence fence = row_now.json ? read_fence(*row_now.json) : Fence();
  if (fence.migration != asked.text({"migration"}) || (fence.ends && !fence.moved)) {
    done(fail(never("the logical cluster was not to leave")));
    return;
  }
  if (fence.left) {
    done(Json::object());
    return;
  }
  fence.left = true;
  fence.at = unix_seconds();
  std::vector<store::Op> ops;
  if (const auto entry = params_.store.get(key)) {
    ops.push_back(delete_row(*entry, key));
  }
  ops.push_back(put_row(move_key(kFences, cluster), named_row(cluster, fence_content(fence)),
                        row_now.modified));
  log_info("a logical cluster has left", {{"cluster", cluster}, {"to", fence.to}});
  commit(std::move(ops), Json::object(), std::move(done));
}

void MoveSteps::release(const std::string& cluster, const Json& asked, Done done) {
  const Expected<store::Entry> entry = params_.store.get(move_key(kFences, cluster));
  const Row row_now = row(kFences, cluster);
  const Fence fence = row_now.json ? read_fence(*row_now.json) : Fence();
  if (!entry || fence.migration != asked.text({"migration"})) {
    done(Json::object({{"moved", false}}));
    return;
  }
  if (fence.moved || fence.left) {
    done(Json::object({{"moved", true}}));
    return;
  }
  // Fenced by an older release, in which the destination decides: it is asked first.
  if (const Json* abandoned = asked.find("abandoned");
      !fence.ends && (abandoned == nullptr || !abandoned->as_bool())) {
    done(Json::object({{"moved", false}, {"ask", true}}));
    return;
  }
  std::vector<store::Op> ops;
  ops.push_back(delete_row(*entry, move_key(kFences, cluster)));
  commit(std::move(ops), Json::object({{"moved", false}}), std::move(done));
}

}  // namespace kintsugi::controlplane
