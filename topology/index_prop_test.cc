#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "topology/index.h"
#include "topology/resolver.h"

// The index against a naive model that keeps every object and answers by reading them all.
namespace kintsugi::topology {
namespace {

using Kind = Resolution::Kind;

struct Model {
  struct Cluster {
    std::string path, type;
    std::uint64_t order = 0;
  };
  struct Workspace {
    std::string child, url;
    bool unavailable = false;
  };
  bool listed = false;
  std::uint64_t order = 0;
  std::map<std::string, std::set<Resource>> shards;                 // name -> synced
  std::map<std::pair<std::string, std::string>, Cluster> clusters;  // shard, cluster
  std::map<std::tuple<std::string, std::string, std::string>, Workspace> workspaces;

  [[nodiscard]] bool all_synced() const {
    return listed && std::all_of(shards.begin(), shards.end(), [](const auto& s) {
             return s.second.count(Resource::kLogicalClusters) != 0;
           });
  }
  [[nodiscard]] const std::pair<const std::pair<std::string, std::string>, Cluster>* owner(
      const std::string& name) const {
    const std::pair<const std::pair<std::string, std::string>, Cluster>* best = nullptr;
    for (const auto& entry : clusters) {
      if (entry.first.second == name &&
          (best == nullptr || best->second.order < entry.second.order)) {
        best = &entry;
      }
    }
    return best;
  }
  [[nodiscard]] std::string answer(const std::vector<std::string>& path) const {
    std::string name = path[0];
    if (owner(name) == nullptr) {
      std::set<std::string> claims;
      for (const auto& entry : clusters) {
        const std::string& cluster = entry.first.second;
        const bool parent = std::any_of(workspaces.begin(), workspaces.end(),
                                        [&](const auto& w) { return w.second.child == cluster; });
        if (!parent && owner(cluster)->second.path == name) {
          claims.insert(cluster);
        }
      }
      if (claims.size() > 1) {
        return "not-found path-conflict";
      }
      if (claims.size() == 1) {
        name = *claims.begin();
      }
    }
    bool unavailable = false;
    for (std::size_t i = 1;; ++i) {
      const auto* at = owner(name);
      if (at == nullptr) {
        return all_synced() ? "not-found unknown" : "not-known ";
      }
      const std::string& shard = at->first.first;
      if (i == path.size()) {
        return (unavailable ? "unavailable " : "resolved ") + shard + " " + name + " " +
               at->second.type;
      }
      const auto w = workspaces.find({shard, name, path[i]});
      if (w == workspaces.end()) {
        return shards.at(shard).count(Resource::kWorkspaces) != 0 ? "not-found unknown"
                                                                  : "not-known ";
      }
      unavailable = unavailable || w->second.unavailable;
      if (w->second.child.empty()) {
        if (w->second.url.empty()) {
          return "not-found unknown";
        }
        if (i + 1 < path.size()) {
          return "not-found mount-suffix";
        }
        return unavailable ? "unavailable " : "mount " + w->second.url;
      }
      name = w->second.child;
    }
  }
};

std::string text(const Resolution& r) {
  std::string out(kind_name(r.kind));
  out += " ";
  switch (r.kind) {
    case Kind::kNotFound:
      return out.append(reason_name(r.reason));
    case Kind::kMount:
      return out.append(r.mount_url);
    case Kind::kNotKnown:
      return out;
    case Kind::kUnavailable:
    case Kind::kResolved:
      if (r.shard == nullptr) {
        return out;
      }
      return out.append(r.shard->spec.name)
          .append(" ")
          .append(r.cluster)
          .append(" ")
          .append(r.type);
  }
  return out;
}

TEST(IndexProperty, WhenEventsComeInAnyOrder_AnswersAsTheObjectsSay) {
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937_64 random(seed);
    const auto pick = [&](const char* prefix, unsigned of) {
      return prefix + std::to_string(random() % of);
    };
    Index index;
    Model model;
    std::map<std::string, ShardId> ids;
    std::vector<std::pair<SnapshotPtr, Model>> old;  // snapshots and what they must go on saying
    for (int step = 0; step < 600; ++step) {
      const std::string shard = pick("s", 4);
      const std::string cluster = pick("c", 8);
      const std::string name = pick("w", 3);
      const bool known = ids.count(shard) != 0;
      switch (random() % 12) {
        case 0: {
          ShardSpec spec;
          spec.name = shard;
          spec.base_url = pick("https://u", 2);
          const auto change = index.upsert_shard(spec);
          ids[shard] = change.id;
          if (change.added || change.base_url_changed) {
            model.shards[shard].clear();
          }
          break;
        }
        case 1:
          if (random() % 6 == 0) {
            index.delete_shard(shard);
            ids.erase(shard);
            model.shards.erase(shard);
            std::erase_if(model.clusters, [&](const auto& e) { return e.first.first == shard; });
            std::erase_if(model.workspaces,
                          [&](const auto& e) { return std::get<0>(e.first) == shard; });
          }
          break;
        case 2: {
          const auto resource =
              random() % 2 == 0 ? Resource::kWorkspaces : Resource::kLogicalClusters;
          if (known) {
            index.set_synced(ids[shard], resource, true);
            model.shards[shard].insert(resource);
          }
          if (step > 200) {
            index.set_shards_listed();
            model.listed = true;
          }
          break;
        }
        case 3:
        case 4:
        case 5: {
          const std::string path = random() % 3 == 0 ? pick("p", 2) : "root:x";
          const std::string type = pick("t", 2);
          index.upsert_cluster(known ? ids[shard] : 999, {cluster, path, type, false});
          if (known) {
            model.clusters[{shard, cluster}] = {path, type, ++model.order};
          }
          break;
        }
        case 6:
          index.delete_cluster(known ? ids[shard] : 999, cluster);
          model.clusters.erase({shard, cluster});
          break;
        case 7:
          index.delete_workspace(known ? ids[shard] : 999, cluster, name);
          model.workspaces.erase({shard, cluster, name});
          break;
        default: {
          WorkspaceReport report{cluster, name, pick("phase", 2), {}, false, {}};
          if (random() % 4 == 0) {
            report.phase = random() % 3 == 0 ? "Scheduling" : "Unavailable";
          }
          if (random() % 5 == 0) {
            report.mount = true;
            report.url = pick("https://m", 2);
          } else if (random() % 10 != 0) {
            report.child = pick("c", 8);
          }
          index.upsert_workspace(known ? ids[shard] : 999, report);
          if (known && report.phase != "Scheduling") {
            model.workspaces[{shard, cluster, name}] = {
                report.child, report.mount && report.child.empty() ? report.url : "",
                report.phase == "Unavailable"};
          }
          break;
        }
      }
      std::vector<std::string> path{random() % 4 == 0 ? pick("p", 2) : pick("c", 8)};
      for (std::uint64_t depth = random() % 4; depth > 0; --depth) {
        path.push_back(pick("w", 3));
      }
      std::string joined = path[0];
      for (std::size_t i = 1; i < path.size(); ++i) {
        joined += ":" + path[i];
      }
      const Resolution got = resolve(index.now(), joined);
      const std::string want = model.answer(path);
      ASSERT_EQ(text(got).substr(0, want.size()), want) << joined << " at step " << step;
      if (step % 100 == 99) {
        old.emplace_back(index.freeze(), model);
      }
      if (!old.empty()) {
        const auto& [snapshot, then] = old[random() % old.size()];
        const std::string expected = then.answer(path);
        ASSERT_EQ(text(resolve(*snapshot, joined)).substr(0, expected.size()), expected)
            << "in an old snapshot: " << joined;
      }
    }
    // What is counted equals what is there.
    std::set<std::string> names;
    for (const auto& [key, value] : model.clusters) {
      names.insert(key.second);
    }
    EXPECT_EQ(index.now().cluster_count(), names.size());
    EXPECT_EQ(index.now().workspace_count(), model.workspaces.size());
    for (const auto& [shard, id] : ids) {
      const auto owned = std::count_if(names.begin(), names.end(), [&, s = shard](const auto& n) {
        return model.owner(n)->first.first == s;
      });
      EXPECT_EQ(index.now().owned(id), static_cast<std::size_t>(owned));
    }
  }
}

}  // namespace
}  // namespace kintsugi::topology
