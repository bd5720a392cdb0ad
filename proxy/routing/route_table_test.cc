#include "proxy/routing/route_table.h"

#include <gtest/gtest.h>

#include "krm/request_target.h"

namespace kintsugi::proxy {
namespace {

RouteTable table_of(const std::vector<std::string>& paths) {
  std::string text;
  for (const std::string& path : paths) {
    text.append("- path: \"").append(path).append("\"\n  backend: http://backend\n");
    text += "  backend_server_ca: a\n  proxy_client_cert: b\n  proxy_client_key: c\n";
  }
  auto entries = parse_mapping(text, "mapping.yaml");
  EXPECT_TRUE(entries) << entries.error().to_string();
  return RouteTable(entries ? std::move(*entries) : std::vector<MappingEntry>());
}

std::string found(const RouteTable& table, std::string_view path) {
  const RouteTable::Match match = table.find(path);
  return match.entry != nullptr ? match.entry->path : "none";
}

TEST(ClusterOfPath, WhenAVirtualWorkspaceNamesACluster_FP028_FP029_FP030_FP031_FP032_FP033) {
  struct Case {
    std::string_view path;
    std::string_view cluster;
  };
  for (const Case& one : {
           Case{"/services/contentconfigurations/clusters/root:orgs:bob/apis/"
                "ui.platform-mesh.io/v1alpha1/contentconfigurations",
                "root:orgs:bob"},
           Case{"/services/marketplace/clusters/root:orgs:bob:quickstart/apis/v1/namespaces",
                "root:orgs:bob:quickstart"},
           Case{"/clusters/root:orgs:bob/api/v1/namespaces", "root:orgs:bob"},
           Case{"/services/foo/clusters/root:orgs:bob", "root:orgs:bob"},
           Case{"/services/contentconfigurations/apis/v1/namespaces", ""},
           Case{"", ""},
           Case{"/services/foo/clusters/*/apis/v1", "*"},
           Case{"/services/foo/clusters/root/apis/v1", "root"},
           Case{"/clusters/a/clusters/b/api", "a"},
           Case{"/services/foo/clusters//apis", ""},
           Case{"/services/foo/clusters/", ""},
       }) {
    EXPECT_EQ(krm::named_cluster(one.path), one.cluster) << one.path;
    const RouteTable services = table_of({"/services/", "/clusters/"});
    const RouteTable::Match match = services.find(one.path);
    if (one.path.starts_with("/services/")) {
      EXPECT_EQ(match.cluster, one.cluster) << one.path;
    } else {
      EXPECT_EQ(match.entry, nullptr) << one.path;
    }
  }
}

TEST(RouteTable, WhenEntriesHaveSeveralLengths_FP034_TheLongestIsTriedFirst) {
  const auto of_length = [](std::size_t length) {
    std::string path;
    for (std::size_t i = 0; i < length; ++i) {
      path += "/s";
    }
    return path;
  };
  const RouteTable table = table_of({of_length(3), of_length(1), of_length(2), of_length(10)});
  std::string order;
  for (std::size_t length = 12; length > 0; --length) {
    const std::string path = found(table, of_length(length));
    const std::string segments = std::to_string(path.size() / 2);
    if (!order.ends_with(" " + segments)) {
      order += " " + segments;
    }
  }
  EXPECT_EQ(order, " 10 3 2 1");
}

TEST(RouteTable, WhenAPathIsBelowAnEntry_FP042_WholeSegmentsCount) {
  const RouteTable table = table_of({"/services/", "/e2e/clusters/{cluster}/", "/exact"});
  EXPECT_EQ(found(table, "/services"), "/services/");
  EXPECT_EQ(found(table, "/services/"), "/services/");
  EXPECT_EQ(found(table, "/services/x/y"), "/services/");
  EXPECT_EQ(found(table, "/servicesx"), "none");
  EXPECT_EQ(found(table, "/exact/below"), "/exact");
  EXPECT_EQ(found(table, "/"), "none");
  EXPECT_EQ(found(table, "/e2e/clusters"), "none");
  EXPECT_EQ(found(table, "/e2e/clusters/"), "none");
  const RouteTable::Match match = table.find("/e2e/clusters/root%3Aorg/foo");
  ASSERT_NE(match.entry, nullptr);
  EXPECT_EQ(match.cluster, "root:org");
  EXPECT_EQ(match.depth, 3U);
}

TEST(RouteTable, WhenALiteralAndAPlaceholderMatch_TheLiteralWins) {
  const RouteTable table =
      table_of({"/", "/a/{x}/c", "/a/b", "/a/{x}", "/{any}/b/c/d", "/a/b/c/{cluster}"});
  EXPECT_EQ(found(table, "/a/b/d"), "/a/b");
  EXPECT_EQ(found(table, "/a/z"), "/a/{x}");
  EXPECT_EQ(found(table, "/a/b/c"), "/a/{x}/c") << "longer";
  EXPECT_EQ(found(table, "/a/b/c/d"), "/a/b/c/{cluster}") << "literal from the left";
  EXPECT_EQ(found(table, "/z/b/c/d"), "/{any}/b/c/d");
  EXPECT_EQ(found(table, "/z/b"), "/");
  EXPECT_EQ(found(table, "/"), "/");
}

TEST(RouteTable, WhenThereAreAThousandEntries_FP105_EachIsFound) {
  std::vector<std::string> paths{"/", "/clusters/"};
  for (int i = 0; i < 1'000; ++i) {
    paths.push_back("/services/vw-" + std::to_string(i) + "/");
  }
  const RouteTable table = table_of(paths);
  for (int i = 0; i < 1'000; ++i) {
    EXPECT_EQ(found(table, "/services/vw-" + std::to_string(i) + "/x"), paths[std::size_t(i) + 2]);
  }
  EXPECT_EQ(found(table, "/services/vw-1000/x"), "/");
  ASSERT_NE(table.clusters(), nullptr);
  EXPECT_EQ(table.clusters()->path, "/clusters/");
}

}  // namespace
}  // namespace kintsugi::proxy
