#include <set>
#include <string>
#include <utility>
#include <vector>

#include "apiserver/keys.h"
#include "base/log.h"
#include "base/time.h"
#include "controlplane/catalog/bound_schema.h"
#include "controlplane/internal/names.h"
#include "controlplane/moves/internal/move_row.h"
#include "controlplane/moves/internal/move_rows.h"
#include "controlplane/moves/move_book.h"
#include "controlplane/moves/move_steps.h"
#include "krm/annotations.h"
#include "store/batches.h"
#include "store/raise.h"

/// How a logical cluster that MoveSteps has got becomes one of this shard.
namespace kintsugi::controlplane {
namespace {

using krm::Json;

std::string cluster_key(const std::string& cluster) {
  return apiserver::object_key(apiserver::stored_resource(kCoreGroup, kLogicalClusters), cluster,
                               "", kClusterName)
      .value_or("");
}

bool is_kept(const store::Store& store, const store::Op& op) {
  const auto known = store.get(op.key);
  return known && known->value.view() == op.value;
}

/// What the row of an arrival says from then on.
Json arrived(const Json& ready, store::Revision begins) {
  const Json* resume = ready.find("resume");
  Json out = Json::object({{"migration", ready.text({"migration"})},
                           {"from", ready.text({"from"})},
                           {"phase", "arrived"},
                           {"resume", resume == nullptr ? Json::object() : *resume},
                           {"at", unix_seconds()}});
  if (begins != 0) {
    out["begins"] = static_cast<std::int64_t>(begins);
  }
  return out;
}

}  // namespace

void MoveSteps::commit_parts(std::vector<store::Op> ops, const store::Op& guard, Done done) {
  if (ops.empty()) {
    done(Json::object());
    return;
  }
  std::vector<store::Op> part = store::take_batch(ops, params_.store.limits());
  part.push_back(guard);
  commit(
      std::move(part), Json::object(),
      [this, ops = std::move(ops), guard, done = std::move(done)](Expected<Json> stored) mutable {
        if (stored) {
          commit_parts(std::move(ops), guard, std::move(done));
        } else {
          done(std::move(stored));
        }
      });
}

bool MoveSteps::drops_first(StepFunction step, const std::string& cluster, const Json& asked,
                            const Row& arrival, std::vector<store::Op>& ops, Done& done) {
  if (ops.empty() || !params_.store.is_shared()) {
    return false;
  }
  commit_parts(std::move(ops), store::unchanged(move_key(kArrivals, cluster), arrival.modified),
               [this, step, cluster, asked, done = std::move(done)](Expected<Json> stored) {
                 if (stored) {
                   (this->*step)(cluster, asked, done);
                 } else {
                   done(std::move(stored));
                 }
               });
  return true;
}

/// Puts of all that has come, the LogicalCluster last.
Expected<std::vector<store::Op>> MoveSteps::arriving_rows(const std::string& cluster,
                                                          const Incoming& incoming) const {
  const std::string lc_key = cluster_key(cluster);
  std::vector<store::Op> ops;
  for (const auto& [key, value] : incoming.rows) {
    const auto parts = apiserver::parse_key(key);
    const bool is_schema = parts && parts->cluster == kBoundCluster;
    if (key == lc_key || (is_schema && params_.store.get(key))) {
      continue;
    }
    store::Op op;
    op.key = key;
    op.value = value;
    ops.push_back(std::move(op));
  }
  const auto lc = incoming.rows.find(lc_key);
  auto object = lc == incoming.rows.end() ? fail(Errc::kCorrupt)
                                          : apiserver::decode_stored(lc->second, "", "", 0);
  if (!object) {
    return fail(Errc::kCorrupt, "the LogicalCluster cannot be read");
  }
  object->make({"metadata", "annotations", krm::kShardAnnotation}) = params_.shard;
  store::Op op;
  op.key = lc_key;
  op.value = apiserver::encode_stored(*object);
  ops.push_back(std::move(op));
  return ops;
}

/// Deletes what was left here when it was here before, but for these keys.
Expected<void> MoveSteps::drop_old_rows(const std::string& cluster,
                                        const std::set<std::string, std::less<>>& but,
                                        std::vector<store::Op>& ops) const {
  return visit_rows(params_.store, cluster, "", 0, [&](const store::EntryView& entry) {
    if (but.find(entry.key) == but.end()) {
      store::Op op;
      op.type = store::EventType::kDelete;
      op.key = std::string(entry.key);
      op.value = std::string(entry.value);
      ops.push_back(std::move(op));
    }
    return true;
  });
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
  if (arrival.text("phase") != "ready") {
    done(fail(never("the copy is not complete")));
    return;
  }
  const Expected<Incoming*> loaded = load(cluster, asked.text({"migration"}));
  const Json* pages = arrival.json->find("pages");
  if (!loaded || (*loaded)->broken ||
      (pages != nullptr && pages->as_integer() != (*loaded)->pages)) {
    done(fail(Errc::kCorrupt, "pages of the copy cannot be read"));
    return;
  }
  Expected<std::vector<store::Op>> rows = arriving_rows(cluster, **loaded);
  if (!rows) {
    done(fail(std::move(rows.error())));
    return;
  }
  log_info("a logical cluster arrives", {{"cluster", cluster},
                                         {"from", std::string(arrival.text("from"))},
                                         {"rows", static_cast<std::uint64_t>(rows->size())}});
  if (!arriving_.insert(cluster).second) {
    done(fail(Errc::kUnavailable, "it is on its way in already"));
    return;
  }
  Done ends = [this, cluster, done = std::move(done)](Expected<Json> stored) {
    if (stored) {
      incoming_.erase(cluster);
    }
    arriving_.erase(cluster);
    done(std::move(stored));
  };
  if (params_.store.is_shared()) {
    arrive_in_parts(cluster, arrival, std::move(*rows), std::move(ends));
  } else {
    arrive_at_once(cluster, arrival, std::move(*rows), std::move(ends));
  }
}

void MoveSteps::arrive_at_once(const std::string& cluster, const Row& arrival,
                               std::vector<store::Op> ops, Done done) {
  std::set<std::string, std::less<>> keys;
  for (const store::Op& op : ops) {
    keys.insert(op.key);
  }
  const auto rows = static_cast<std::int64_t>(ops.size());
  ops.push_back(store::raise_to(static_cast<store::Revision>(integer_of(*arrival.json, "behind"))));
  if (const auto old = drop_old_rows(cluster, keys, ops); !old) {
    done(fail(old.error().clone()));
    return;
  }
  drop_pages(cluster, ops);
  if (const auto entry = params_.store.get(move_key(kFences, cluster))) {
    ops.push_back(delete_row(*entry, move_key(kFences, cluster)));
  }
  ops.push_back(put_row(move_key(kArrivals, cluster), named_row(cluster, arrived(*arrival.json, 0)),
                        arrival.modified));
  commit(std::move(ops), Json::object({{"rows", rows}}), std::move(done));
}

/// Where a transaction takes few rows, and `ready` has seen that revisions are high enough. First
/// what is left of an earlier stay goes, then a fence comes: nobody, controllers of this shard
/// among them, writes to what is half there. The revision of the row that says so is where watches
/// go on, for all rows are behind it. The LogicalCluster and the end of the fence are last.
void MoveSteps::arrive_in_parts(const std::string& cluster, const Row& arrival,
                                std::vector<store::Op> ops, Done done) {
  const std::string key = move_key(kArrivals, cluster);
  if (arrival.json->find("begun") != nullptr) {
    put_parts(cluster, arrival, std::move(ops), std::move(done));
    return;
  }
  std::vector<store::Op> old;
  if (const auto found = drop_old_rows(cluster, {}, old); !found) {
    done(fail(found.error().clone()));
    return;
  }
  const auto put = [this, cluster, ops = std::move(ops), done](Expected<Json> stored) mutable {
    if (stored) {
      put_parts(cluster, row(kArrivals, cluster), std::move(ops), std::move(done));
    } else {
      done(std::move(stored));
    }
  };
  const auto begin = [this, cluster, key, arrival, put, done](Expected<Json> stored) {
    if (!stored) {
      done(std::move(stored));
      return;
    }
    Json content = *arrival.json;
    content.erase("metadata");
    content["begun"] = true;
    std::vector<store::Op> both;
    both.push_back(put_row(key, named_row(cluster, std::move(content)), arrival.modified));
    both.push_back(put_row(
        move_key(kFences, cluster),
        named_row(cluster,
                  Json::object({{"migration", arrival.text("migration")}, {"to", params_.shard}})),
        std::nullopt));
    commit(std::move(both), Json::object(), put);
  };
  commit_parts(std::move(old), store::unchanged(key, arrival.modified), begin);
}

void MoveSteps::put_parts(const std::string& cluster, const Row& arrival,
                          std::vector<store::Op> ops, Done done) {
  const std::string key = move_key(kArrivals, cluster);
  if (!arrival.json || arrival.json->find("begun") == nullptr) {
    done(fail(Errc::kConflict, "another step was faster"));
    return;
  }
  const auto rows = static_cast<std::int64_t>(ops.size());
  store::Op last = std::move(ops.back());
  ops.pop_back();
  std::erase_if(ops, [this](const store::Op& op) { return is_kept(params_.store, op); });
  const auto end = [this, cluster, key, rows, arrival, last = std::move(last),
                    done](Expected<Json> stored) {
    if (!stored) {
      done(std::move(stored));
      return;
    }
    std::vector<store::Op> all{last};
    if (const auto entry = params_.store.get(move_key(kFences, cluster))) {
      all.push_back(delete_row(*entry, move_key(kFences, cluster)));
    }
    all.push_back(put_row(key, named_row(cluster, arrived(*arrival.json, arrival.modified)),
                          arrival.modified));
    commit(std::move(all), Json::object({{"rows", rows}}), done);
  };
  commit_parts(std::move(ops), store::unchanged(key, arrival.modified), end);
}

}  // namespace kintsugi::controlplane
