#pragma once

#include <gtest/gtest.h>

#include <string>
#include <string_view>

#include "topology/index.h"
#include "topology/resolver.h"
#include "topology/testing/reports.h"

/// For tests only: an index filled by hand.
namespace kintsugi::topology {

inline ShardSpec shard(const std::string& name, const std::string& url = {}) {
  ShardSpec spec;
  spec.name = name;
  spec.base_url = url.empty() ? "https://" + name + ".io" : url;
  return spec;
}

inline WorkspaceReport workspace(const std::string& cluster, const std::string& name,
                                 const std::string& child, const std::string& phase = "Ready") {
  return edge(cluster, name, child, phase);
}

inline WorkspaceReport mount(const std::string& cluster, const std::string& name,
                             const std::string& url, const std::string& phase = "Ready") {
  return {cluster, name, phase, {}, true, url};
}

/// Fixture S of section 18.1.
class IndexTest : public ::testing::Test {
 protected:
  ShardId add(const std::string& name, const std::string& url = {}, bool synced = true) {
    const ShardId id = index.upsert_shard(shard(name, url)).id;
    if (synced) {
      sync(id);
    }
    return id;
  }
  void sync(ShardId id) {
    index.set_synced(id, Resource::kWorkspaces, true);
    index.set_synced(id, Resource::kLogicalClusters, true);
  }
  void cluster(ShardId id, const std::string& name, const std::string& path = {},
               const std::string& type = {}) {
    index.upsert_cluster(id, {name, path, type, false});
  }
  /// One that belongs to the Workspace `ws` in `parent`.
  void own(ShardId id, const std::string& name, const std::string& parent, const std::string& ws,
           const std::string& path = {}, const std::string& type = {}) {
    index.upsert_cluster(id, owned(name, parent, ws, path, type));
  }
  void fixture() {
    root = add("root");
    beta = add("beta");
    gama = add("gama");
    cluster(root, "root", "root");
    own(beta, "one", "root", "org", "root:org");
    own(gama, "two", "one", "rh", "root:org:rh");
    index.upsert_workspace(root, workspace("root", "org", "one"));
    index.upsert_workspace(beta, workspace("one", "rh", "two"));
    index.set_shards_listed();
  }
  [[nodiscard]] Resolution at(std::string_view path) const { return resolve(index.now(), path); }
  void expect(std::string_view path, const std::string& shard_name, const std::string& name) const {
    const Resolution r = at(path);
    ASSERT_EQ(r.kind, Resolution::Kind::kResolved) << path;
    EXPECT_EQ(r.shard->spec.name, shard_name) << path;
    EXPECT_EQ(r.cluster, name) << path;
  }
  void expect_unknown(std::string_view path) const {
    EXPECT_EQ(at(path).kind, Resolution::Kind::kNotFound) << path;
    EXPECT_EQ(at(path).reason, NotFoundReason::kUnknown) << path;
  }
  void expect(std::string_view path, Resolution::Kind kind) const {
    EXPECT_EQ(at(path).kind, kind) << path;
  }

  Index index;
  ShardId root = 0, beta = 0, gama = 0;
};

}  // namespace kintsugi::topology
