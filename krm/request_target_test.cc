#include "krm/request_target.h"

#include <gtest/gtest.h>

namespace kintsugi::krm {
namespace {

using Fault = TargetFault;
using Form = TargetForm;

constexpr TargetRules kProxy{};
constexpr TargetRules kShard{.shard = true};
constexpr TargetRules kPlain{.opaque_proxy = true};

RequestTarget read(std::string_view target, TargetRules rules = kProxy) {
  return parse_target("GET", target, rules);
}

/// "form · scope · cluster · trail"
std::string line(std::string_view target) {
  static constexpr const char* kForms[] = {"probe",   "metrics",    "info", "cluster",
                                           "service", "no-service", "other"};
  const RequestTarget out = read(target);
  std::string text = kForms[static_cast<std::size_t>(out.form)];
  if (out.scope == TargetScope::kShard) {
    text += " of shard " + out.scope_name;
  } else if (out.scope == TargetScope::kPartition) {
    text += " of partition " + out.scope_cluster + "/" + out.scope_name;
  }
  return text + " · " + out.cluster + " · " + std::string(target.substr(out.trail));
}

TEST(RequestTarget, WhenOfAnyForm_IsTakenApart_SE020) {
  const std::pair<const char*, const char*> cases[] = {
      {"/livez", "probe ·  · /livez"},
      {"/readyz/informer-sync?verbose", "probe ·  · /readyz/informer-sync?verbose"},
      {"/%6Cive%7a", "probe ·  · /%6Cive%7a"},
      {"/metrics?x", "metrics ·  · /metrics?x"},
      {"/livezz", "other ·  · /livezz"},
      {"/clusters/root", "cluster · root · "},
      {"/clusters/root?x=/y", "cluster · root · ?x=/y"},
      {"/clusters/root:org/api/v1", "cluster · root:org · /api/v1"},
      {"/clusters/%2A/apis", "cluster · * · /apis"},
      {"/clusters/a/clusters/b/api", "cluster · a · /clusters/b/api"},
      {"/clusters/a/%63lusters/b", "cluster · a · /%63lusters/b"},
      {"/shards/s/clusters/a/clusters/b", "cluster of shard s · a · /clusters/b"},
      {"/clusters/*/clusters/b/api", "other · * · /clusters/b/api"},
      {"/clusters/*/shards/a/api", "other · * · /shards/a/api"},
      {"/clusters/a/%70artitions%2Fb/c", "other · a · /%70artitions%2Fb/c"},
      {"/services/apiexport/c/e/clusters/x/clusters/y", "other · x · /clusters/y"},
      {"/clusters/a/clustersx/b", "cluster · a · /clustersx/b"},
      {"/clusters/a/api/v1/clusters", "cluster · a · /api/v1/clusters"},
      {"/clusters/", "other ·  · /clusters/"},
      {"/clusters", "other ·  · /clusters"},
      {"/shards/alpha/clusters/c/api", "cluster of shard alpha · c · /api"},
      {"/shards/alpha", "other of shard alpha ·  · /shards/alpha"},
      {"/shards", "other of shard  ·  · /shards"},
      {"/shards/a/shards/b/clusters/c", "other of shard a · c · /shards/a/shards/b/clusters/c"},
      {"/shards/a/livez", "other of shard a ·  · /shards/a/livez"},
      {"/partitions/root:o/p/clusters/*/api", "cluster of partition root:o/p · * · /api"},
      {"/partitions/root", "other of partition root/ ·  · /partitions/root"},
      {"/partitions/a?b/c/clusters/*", "other of partition a/ ·  · /partitions/a?b/c/clusters/*"},
      {"/services/apiexport/c/e/clusters/x/apis", "service · x · /apis"},
      {"/shards/s/services/replication/c/s/clusters/*", "service of shard s · * · "},
      {"/services/apiexport/clusters/e/clusters/x/apis", "service · x · /apis"},
      {"/services/apiexport/c/e/apis", "no-service ·  · /services/apiexport/c/e/apis"},
      {"/services/market/clusters/root:a/api", "service · root:a · /clusters/root:a/api"},
      {"/services", "other ·  · /services"},
      {"/e2e/clusters/root:x/api", "other · root:x · /e2e/clusters/root:x/api"},
      {"/api/v1/pods", "other ·  · /api/v1/pods"},
      {"*", "other ·  · *"},
  };
  for (const auto& [target, expected] : cases) {
    EXPECT_EQ(line(target), expected);
    EXPECT_EQ(read(target).fault, Fault::kNone) << target;
  }
}

TEST(RequestTarget, WhenWordsAreEscaped_TheyAreTheSameWords_SE021) {
  const std::pair<const char*, const char*> cases[] = {
      {"/%63lusters/root%3Aorg/api", "/clusters/root:org"},
      {"/cluster%73/%2a/api", "/clusters/*"},
      {"/%73hards/al%70ha/%63lusters/x/api", "/shards/alpha/clusters/x"},
      {"/partition%73/root%3ao/%70/clusters/%2A/api", "/partitions/root:o/p/clusters/*"},
      {"/service%73/api%65xport/root%3Ao/e%2De/cluster%73/%2A/api",
       "/services/apiexport/root:o/e%2De/clusters/*"},
      {"/shards/a%2Fb/clusters/x/api", "/shards/a%2Fb/clusters/x"},
      {"/clusters/a%2Fb/api", "/clusters/a%2Fb"},
      {"/clusters/A%41/api", "/clusters/A%41"},
      {"/clusters/root/%61pi", ""},
  };
  for (const auto& [target, plain] : cases) {
    const RequestTarget out = read(target);
    EXPECT_EQ(out.plain_prefix, plain) << target;
    const std::string again = canonical_target(target, out);
    const RequestTarget second = read(again);
    EXPECT_EQ(second.form, out.form) << target;
    EXPECT_EQ(second.cluster, out.cluster) << target;
    EXPECT_EQ(second.scope_name, out.scope_name) << target;
    EXPECT_EQ(canonical_target(again, second), again) << target;
  }
  for (const char* other :
       {"/clusters%2Froot/api", "/%2563lusters/root/api", "/Clusters/root/api",
        "/services/apiexport/c%2Fe%2Fclusters%2Fx", "/shards%2Fa/clusters/x/api"}) {
    const RequestTarget out = read(other);
    EXPECT_TRUE(out.form == Form::kOther || out.form == Form::kNoService) << other;
    EXPECT_EQ(canonical_target(other, out), other);
  }
}

// E16: the byte is named, but for an encoded slash.
TEST(RequestTarget, WhenMalformed_SE027_SE028_IsRefusedWithItsOffset) {
  const std::pair<std::string, const char*> cases[] = {
      {"/clusters/root/%zz",
       "malformed path: % at offset 15 is not followed by two hexadecimal "
       "digits"},
      {"/clusters/*/%", "malformed path: % at offset 12 is not followed by two hexadecimal digits"},
      {"/shards/a/clusters/*/x%0",
       "malformed path: % at offset 22 is not followed by two hexadecimal digits"},
      {"/clusters/*/a%00b", "malformed path: an escaped control character at offset 13"},
      {"/services/apiexport/c/e/clusters/*/%1F",
       "malformed path: an escaped control character at offset 35"},
      {"/x%7f", "malformed path: an escaped control character at offset 2"},
      {"/clusters/r%00/api", "malformed path: an escaped control character at offset 11"},
      {"/clusters/r/%C2%85", "malformed path: escaped bytes at offset 12 are no text"},
      {"/clusters/r/%ff", "malformed path: escaped bytes at offset 12 are no text"},
      {"/clusters/r/%C3x", "malformed path: escaped bytes at offset 12 are no text"},
      {"/clusters/r/a b", "malformed path: a byte at offset 13 has to be escaped"},
      {"/clusters/r/\xC3\xBC", "malformed path: a byte at offset 12 has to be escaped"},
      {"/clusters/r/#x", "malformed path: a byte at offset 12 has to be escaped"},
      {"/clusters/r/api?x=\ty", "malformed path: a byte at offset 18 has to be escaped"},
      {std::string("/a\0b", 4), "malformed path: a byte at offset 2 has to be escaped"},
      {"clusters/r", "malformed path: it does not begin with a slash"},
      {"", "malformed path: it does not begin with a slash"},
      {"/clusters/r/..%2Fx", "invalid path: encoded slash"},
      {"/clusters/*/..%2F..%2fx", "invalid path: encoded slash"},
      {"/clusters/r/a%2F%2Fb", "invalid path: encoded slash"},
      {"/clusters/r/a%2F", "invalid path: encoded slash"},
      {"/clusters/r/a%5c..%5cb", "invalid path: encoded slash"},
      {"/shards/s/clusters/r/%2Fx", "invalid path: encoded slash"},
      {"/e2e/%2e%2F", "invalid path: encoded slash"},
      {"//\\evil.io/..", "invalid path: encoded slash"},
      {"/clusters/r/x\\..\\y", "invalid path: encoded slash"},
  };
  for (const auto& [target, reason] : cases) {
    for (const TargetRules rules : {kProxy, kShard}) {
      const RequestTarget out = read(target, rules);
      EXPECT_EQ(out.fault, Fault::kMalformed) << target;
      EXPECT_EQ(out.reason, reason) << target;
    }
  }
  for (const char* fine : {"/clusters/r/api?x=%zz&y=a//b", "/clusters/r/a%2Fb",
                           "/clusters/r/%C3%BC", "/clusters/r/a+b", "/clusters/r/a%252Fb",
                           "/a?b=//", "/a/..b", "/a/b..", "/a/...", "/a%3Fb"}) {
    EXPECT_EQ(read(fine).fault, Fault::kNone) << fine;
  }
}

TEST(RequestTarget, WhenTooLong_SE027_SaysSo) {
  const std::string path(16U << 10, 'a');
  EXPECT_EQ(read("/" + path.substr(1)).fault, Fault::kNone);
  EXPECT_EQ(read("/" + path).fault, Fault::kTooLong);
  EXPECT_EQ(read("/?" + std::string((48U << 10) - 2, 'q')).fault, Fault::kNone);
  EXPECT_EQ(read("/?" + std::string((48U << 10) - 1, 'q')).fault, Fault::kTooLong);
}

TEST(RequestTarget, WhenUnclean_SE030_LeadsToTheCleanedPath) {
  const std::pair<const char*, const char*> cases[] = {
      {"//clusters/root/api?a=1", "/clusters/root/api?a=1"},
      {"/clusters/root/../one/api", "/clusters/one/api"},
      {"/clusters//root/x", "/clusters/root/x"},
      {"/clusters/../api/v1/namespaces", "/api/v1/namespaces"},
      {"/clusters//", "/clusters/"},
      {"/clusters/root/%2e%2e/one", "/clusters/one"},
      {"/shards/a/./clusters/*/api", "/shards/a/clusters/*/api"},
      {"/../..", "/"},
      {"/a/./b/", "/a/b/"},
  };
  for (const auto& [target, location] : cases) {
    const RequestTarget out = read(target);
    EXPECT_EQ(out.fault, Fault::kUnclean) << target;
    EXPECT_EQ(out.reason, location) << target;
  }
}

// In front of the trail an escaped dot segment is no part of a path of ours, and is not cleaned.
TEST(RequestTarget, WhenEscapedDotsStandInFront_FP107_NobodyIsThere) {
  for (const char* target : {"/%2e%2e/clusters/root/api", "/%2E/clusters/root:x/api/v1?a=1",
                             "/x/.%2e/services/apiexport/c/e", "/%2e%2e/clusters/root/a/../b"}) {
    const RequestTarget out = read(target);
    EXPECT_EQ(out.fault, Fault::kNone) << target;
    EXPECT_EQ(out.form, Form::kNoService) << target;
  }
  const RequestTarget out = read("/clusters/%2e%2e/api");
  EXPECT_EQ(out.fault, Fault::kNone) << "no cluster has such a name";
  EXPECT_EQ(out.form, Form::kCluster);
  EXPECT_EQ(out.cluster, "..");
  EXPECT_EQ(read("/clusters/root/%2e/api").reason, "/clusters/root/api");
  EXPECT_EQ(read("/api/v1/%2e%2e/v1").reason, "/api/v1") << "an in-cluster client's";
}

TEST(RequestTarget, WhenAShardReadsAnUncleanPath_KK375_ItStaysInItsCluster) {
  const std::pair<const char*, const char*> cases[] = {
      {"/clusters/a//api?x=1", "/clusters/a/api?x=1"},
      {"/clusters/a/./api/", "/clusters/a/api/"},
      {"/clusters/root:org/x/../api", "/clusters/root:org/api"},
      {"/clusters/root%3Aorg/x/%2e%2E/api", "/clusters/root%3Aorg/api"},
      {"/services/apiexport/c/e/clusters/x//apis", "/services/apiexport/c/e/clusters/x/apis"},
      {"//api", "/api"},
      {"//clusters/a/api", "/clusters/a/api"},
  };
  for (const auto& [target, location] : cases) {
    const RequestTarget out = read(target, kShard);
    EXPECT_EQ(out.fault, Fault::kUnclean) << target;
    EXPECT_EQ(out.reason, location) << target;
  }
  for (const char* above : {"/clusters/a/../b/api", "/clusters/a/x/../../b", "/clusters/a/%2e%2e",
                            "/../x", "/services/apiexport/c/e/clusters/x/../y/apis"}) {
    EXPECT_EQ(read(above, kShard).fault, Fault::kMalformed) << above;
  }
  for (const char* nowhere : {"/clusters//x", "/clusters/./api", "/clusters/../api"}) {
    EXPECT_EQ(read(nowhere, kShard).fault, Fault::kNone) << nowhere;
  }
}

TEST(RequestTarget, WhenAWatchIsAskedFor_SET003_SaysSo) {
  for (const char* yes :
       {"/clusters/a/api/v1/pods?watch=1", "/clusters/a/api/v1/pods?%77atch=1",
        "/clusters/a/api/v1/pods?watch", "/clusters/a/api/v1/pods?watch=maybe",
        "/clusters/a/api/v1/pods?a;watch=0&watch=true", "/clusters/a/api/v1/pods?watch=%zz&watch=1",
        "/clusters/a/api/v1/%77atch/pods", "/clusters/a/api%2Fv1%2Fwatch%2Fpods",
        "/shards/s/clusters/*/apis/g/v1/watch/namespaces/n/foo/x",
        "/services/apiexport/c/e/clusters/*/apis/g/v1/foo?watch=TRUE",
        "/clusters/a/api/v1/watches?watch=1", "/e2e/clusters/a/api/v1/pods?watch=1",
        "/services/market/clusters/a/api/v1/pods?watch=1", "/api/v1/pods?watch=1"}) {
    EXPECT_TRUE(read(yes).is_watch) << yes;
    EXPECT_TRUE(read(yes).is_long_running) << yes;
    EXPECT_TRUE(is_watch("GET", yes)) << yes;
  }
  for (const char* no :
       {"/clusters/a/api/v1/pods?watch=0&watch=1", "/clusters/a/api/v1/pods?watch=False",
        "/clusters/a/api/v1/pods?watched=1", "/clusters/a/api/v1/pods?a=watch",
        "/clusters/a/api/v1/pods?a;watch=1", "/clusters/a/api/v1/pods?%2577atch=1",
        "/clusters/a/api/v1/namespaces/watch/pods", "/clusters/a/api/v1/pods/watch",
        "/clusters/a/api/v1/pods/x?watch=1", "/clusters/a/apis?watch=1", "/clusters/a/api/v1/watch",
        "/clusters/watch/api/v1/pods"}) {
    EXPECT_FALSE(read(no).is_watch) << no;
    EXPECT_FALSE(is_watch("GET", no)) << no;
  }
  EXPECT_FALSE(parse_target("POST", "/clusters/a/api/v1/pods?watch=1").is_watch);
  for (const char* goes_on :
       {"/clusters/a/api/v1/namespaces/n/pods/x/exec", "/clusters/a/api/v1/namespaces/n/pods/x/log",
        "/clusters/a/api/v1/nodes/x/proxy/metrics", "/clusters/a/api/v1/proxy/nodes/x"}) {
    EXPECT_TRUE(read(goes_on).is_long_running) << goes_on;
    EXPECT_FALSE(read(goes_on).is_watch) << goes_on;
  }
}

TEST(RequestTarget, WhenTheTrailIsEscaped_ItHasOneCanonicalForm_KK371) {
  const std::pair<const char*, const char*> cases[] = {
      {"/api%2Fv1/secrets?a=%2F", "/api/v1/secrets?a=%2F"},
      {"/%61pi/v1/configmaps/a%2Fb", "/api/v1/configmaps/a/b"},
      {"/apis/g/v1/w%3A0a", "/apis/g/v1/w:0a"},
      {"/api/v1/secrets/a%252Fb", "/api/v1/secrets/a%252Fb"},
      {"/api/v1/secrets/%C3%bc%20%3f%23", "/api/v1/secrets/%C3%BC%20%3F%23"},
      {"/api/v1/secrets/a+b", "/api/v1/secrets/a+b"},
      {"/api/v1/secrets/", "/api/v1/secrets/"},
      {"?x=%2F", "?x=%2F"},
      {"", ""},
  };
  for (const auto& [trail, canonical] : cases) {
    EXPECT_EQ(canonical_trail(trail), canonical);
    EXPECT_EQ(canonical_trail(canonical), canonical);
  }
}

TEST(RequestTarget, WhenBelowProxyOfAPlainServer_SE026_TheRestIsItsOwn) {
  const char* const whole = "/clusters/a/api/v1/namespaces/n/services/x/proxy";
  for (const char* rest : {"/a%2Fb", "/..%2F", "//x/../y", "/%zz", "/a%00"}) {
    const std::string target = std::string(whole) + rest;
    const RequestTarget out = read(target, kPlain);
    EXPECT_EQ(out.fault, Fault::kNone) << target;
    const RequestInfo info = request_info_of("GET", target, out);
    EXPECT_EQ(info.resource + '/' + info.subresource + ' ' + info.name, "services/proxy x")
        << target;
    EXPECT_EQ(info.path, "/api/v1/namespaces/n/services/x/proxy") << target;
  }
  EXPECT_NE(read(std::string(whole) + "/..%2F").fault, Fault::kNone);
  EXPECT_NE(read("/clusters/a/api/v1/namespaces/n/services/x/other/..%2F", kPlain).fault,
            Fault::kNone);
  EXPECT_NE(read("/clusters/a/api/v1/namespaces/n/services/x/proxy/a#b", kPlain).fault,
            Fault::kNone);
}

TEST(RequestTarget, SE026_WhenWhatStandsInFrontIsUnclean_OneRedirectCleansAll) {
  for (const char* target :
       {"/clusters/./api/v1/nodes/x/proxy/./b", "/clusters/a/api/v1/nodes/./proxy/./x",
        "/clusters/a/api/v1/./nodes/x/proxy/./b", "/shards/./clusters/a/api/v1/nodes/x/proxy//b",
        "/clusters//a/api/v1/nodes/x/proxy/../proxy/./b"}) {
    const RequestTarget out = read(target, kPlain);
    ASSERT_EQ(out.fault, Fault::kUnclean) << target;
    EXPECT_NE(read(out.reason, kPlain).fault, Fault::kUnclean) << out.reason;
  }
}

TEST(RequestTarget, WhenInfoIsAsked_ItIsThatOfTheTrail) {
  const char* const target = "/shards/s/clusters/root:a/apis/g/v1/namespaces/n/foo/x?dryRun=All";
  const RequestInfo info = request_info_of("PUT", target, parse_target("PUT", target));
  EXPECT_EQ(info.verb + ' ' + info.group + ' ' + info.resource + ' ' + info.ns + ' ' + info.name,
            "update g foo n x");
  EXPECT_EQ(info.query.get("dryRun"), "All");
  EXPECT_EQ(request_info_of("GET", "/clusters/a", read("/clusters/a")).path, "/");
}

}  // namespace
}  // namespace kintsugi::krm
