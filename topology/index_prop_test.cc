#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "topology/index.h"
#include "topology/resolver.h"

// The index against a naive model that keeps every object and answers by reading them all.
namespace kintsugi::topology {
namespace {

using Kind = Resolution::Kind;

struct Model {
  struct Cluster {
    std::string shard, path, type, owner;  // owner: "<cluster> <name> <uid>"
  };
  struct Workspace {
    std::string child, url, uid;
    bool unavailable = false;
  };
  bool listed = false;
  std::map<std::string, std::set<Resource>> shards;      // name -> synced
  std::map<std::string, std::vector<Cluster>> clusters;  // the one that counts stands last
  std::map<std::tuple<std::string, std::string, std::string>, Workspace> workspaces;

  [[nodiscard]] bool all_synced() const {
    return listed && std::all_of(shards.begin(), shards.end(), [](const auto& s) {
             return s.second.count(Resource::kLogicalClusters) != 0;
           });
  }
  [[nodiscard]] static std::string mark(const std::string& cluster, const std::string& name,
                                        const std::string& uid) {
    return cluster + " " + name + " " + uid;
  }
  [[nodiscard]] bool confirmed(const std::string& name, const Cluster& cluster) const {
    return std::any_of(workspaces.begin(), workspaces.end(), [&](const auto& w) {
      return w.second.child == name &&
             mark(std::get<1>(w.first), std::get<2>(w.first), w.second.uid) == cluster.owner;
    });
  }
  /// Confirmed before unconfirmed, then the one that counted, then the newest.
  void settle() {
    for (auto& [name, all] : clusters) {
      const auto best = std::find_if(all.rbegin(), all.rend(), [&, n = name](const Cluster& one) {
        return confirmed(n, one);
      });
      if (best != all.rend()) {
        std::rotate(best.base() - 1, best.base(), all.end());
      }
    }
    std::erase_if(clusters, [](const auto& entry) { return entry.second.empty(); });
  }
  void put(const std::string& name, const Cluster& report) {
    std::vector<Cluster>& all = clusters[name];
    const bool had = !all.empty() && all.back().shard == report.shard;
    std::erase_if(all, [&](const Cluster& one) { return one.shard == report.shard; });
    const bool is_confirmed = confirmed(name, report);
    const bool takes = all.empty() || had || !is_confirmed || !confirmed(name, all.back());
    all.insert(takes ? all.end() : all.end() - 1, report);
    settle();
  }
  void drop(const std::string& shard, const std::string& name) {
    if (const auto found = clusters.find(name); found != clusters.end()) {
      std::erase_if(found->second, [&](const Cluster& one) { return one.shard == shard; });
    }
    settle();
  }
  [[nodiscard]] const Cluster* owner(const std::string& name) const {
    const auto found = clusters.find(name);
    return found == clusters.end() ? nullptr : &found->second.back();
  }
  [[nodiscard]] std::string answer(const std::vector<std::string>& path) const {
    std::string name = path[0];
    if (owner(name) == nullptr) {
      std::set<std::string> claims;
      for (const auto& [cluster, all] : clusters) {
        if (all.back().owner.empty() && all.back().path == name) {
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
      const Cluster* at = owner(name);
      if (at == nullptr) {
        return all_synced() ? "not-found unknown" : "not-known ";
      }
      const std::string& shard = at->shard;
      if (i == path.size()) {
        return (unavailable ? "unavailable " : "resolved ") + shard + " " + name + " " + at->type;
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
      const std::string parent = std::exchange(name, w->second.child);
      if (owner(name) != nullptr && owner(name)->owner != mark(parent, path[i], w->second.uid)) {
        return "not-found unconfirmed";
      }
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

/// The Workspace that a cluster belongs to, most of the time.
std::pair<std::string, std::string> usual_owner(const std::string& cluster) {
  const int number = cluster.back() - '0';
  return {"c" + std::to_string(number / 2), "w" + std::to_string(number % 3)};
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
            std::erase_if(model.workspaces,
                          [&](const auto& e) { return std::get<0>(e.first) == shard; });
            model.settle();
            for (int i = 0; i < 8; ++i) {
              model.drop(shard, "c" + std::to_string(i));
            }
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
          ClusterReport report{cluster, path, type, false};
          std::string owner;
          if (random() % 4 != 0) {
            const auto usual = usual_owner(cluster);
            const bool odd = random() % 4 == 0;
            report.owner_cluster = odd ? pick("c", 8) : usual.first;
            report.owner_name = odd ? pick("w", 3) : usual.second;
            report.owner_uid = random() % 8 == 0 ? "other" : "u";
            owner = Model::mark(report.owner_cluster, report.owner_name, report.owner_uid);
          }
          index.upsert_cluster(known ? ids[shard] : 999, report);
          if (known) {
            model.put(cluster, {shard, path, type, owner});
          }
          break;
        }
        case 6:
          index.delete_cluster(known ? ids[shard] : 999, cluster);
          model.drop(shard, cluster);
          break;
        case 7:
          index.delete_workspace(known ? ids[shard] : 999, cluster, name);
          model.workspaces.erase({shard, cluster, name});
          model.settle();
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
            for (int i = 0; i < 8 && random() % 8 != 0; ++i) {
              const std::string child = "c" + std::to_string(i);
              report.child = usual_owner(child) == std::pair(cluster, name) ? child : report.child;
            }
          }
          report.uid = random() % 8 == 0 ? "other" : "u";
          index.upsert_workspace(known ? ids[shard] : 999, report);
          const auto at = model.workspaces.find({shard, cluster, name});
          if (known && report.phase != "Scheduling") {
            model.workspaces[{shard, cluster, name}] = {
                report.child, report.mount && report.child.empty() ? report.url : "", report.uid,
                report.phase == "Unavailable"};
          } else if (at != model.workspaces.end() && at->second.uid != report.uid) {
            model.workspaces.erase(at);
          }
          model.settle();
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
    EXPECT_EQ(index.now().cluster_count(), model.clusters.size());
    EXPECT_EQ(index.now().workspace_count(), model.workspaces.size());
    for (const auto& [shard, id] : ids) {
      const auto owned =
          std::count_if(model.clusters.begin(), model.clusters.end(),
                        [s = shard](const auto& entry) { return entry.second.back().shard == s; });
      EXPECT_EQ(index.now().owned(id), static_cast<std::size_t>(owned));
    }
  }
}

}  // namespace
}  // namespace kintsugi::topology
