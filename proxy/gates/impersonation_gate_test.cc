#include "proxy/gates/impersonation_gate.h"

#include "proxy/testing/rig.h"

namespace kintsugi::proxy {
namespace {

using auth::ImpersonationPlace;
using testing::Answer;
using testing::Exchange;
using testing::FakeShard;
using testing::Rig;

constexpr std::string_view kRefusal = "forbidden: impersonation is not allowed for the requestor";

TEST(ImpersonationGate, WhenATargetLeadsToAll_KK327_IsShared) {
  for (const char* target :
       {"/services/apiexport/c1/e/clusters/c1/api", "/services", "/services?x", "/clusters/*",
        "/clusters/*/api", "/clusters/%2A/api", "/clusters/%2a?watch=1", "/clusters%2F*/api",
        "/%73ervices/apiexport/c1", "/shards/alpha/services/x", "/shards/alpha/clusters/*/api",
        "/shards/a%6Cpha/clusters/%2A/api", "/partitions/root/p/clusters/*/api",
        "/partitions/root/p/services/apiexport/x", "//services/x", "/shards/alpha%2Fservices/x"}) {
    EXPECT_EQ(place_of(target), ImpersonationPlace::kShared) << target;
  }
  for (const char* target :
       {"", "/", "/clusters/root/api", "/clusters/root/services/x", "/clusters/root?x=/clusters/*",
        "/shards/alpha/clusters/c1/api", "/clusters/a*/api", "/metrics", "/api/v1/services"}) {
    EXPECT_EQ(place_of(target), ImpersonationPlace::kCluster) << target;
  }
}

TEST(ImpersonationGate, WhenOneGateHasJudged_SE051_TheNextDoesNot) {
  http::RequestHead head = Rig::get("/clusters/root/api");
  head.headers.add("impersonate-user", "bob");
  Request request = understand(std::move(head), false);
  serving::ConnectionIdentity alice;
  alice.user = auth::UserInfo{};
  alice.user->name = "alice";
  const topology::Snapshot facts;
  EXPECT_FALSE(judge_impersonation_of(request, &alice, facts));
  EXPECT_EQ(request.judged, ImpersonationPlace::kCluster);
  request.head.headers.set("impersonate-user", "system:kcp:root");  // seen only if judged again
  EXPECT_FALSE(judge_impersonation_of(request, &alice, facts));
  EXPECT_TRUE(judge_impersonation_of(request, &alice, facts, "/services/x")) << "less is allowed";
  Request other = understand(Rig::get("/clusters/*/api"), false);
  other.head.headers.add("impersonate-user", "bob");
  EXPECT_TRUE(judge_impersonation_of(other, &alice, facts));
  EXPECT_FALSE(other.judged) << "what is refused is judged each time";
}

TEST(ImpersonationGate, WhenAClientSpeaksLikeTheSystem_KK283_KK284_ItsHeadersGo) {
  http::HeaderList headers;
  for (const char* name :
       {"x-kcp-internal-deep-subjectaccessreview", "X-Kcp-Internal-Deep-SubjectAccessReview",
        "x_kcp_internal_deep_subjectaccessreview", "x-kubernetes-sharded-request",
        "x-kcp-api-v1-discovery-passthrough", "x-kcp-virtual-resource-hops", "accept"}) {
    headers.add(name, "true");
  }
  headers.add("X_Kintsugi_Waited-Ms", "60000");  // SE-077
  headers.add("x-kintsugi-waited-ms", "60000");
  strip_internal_headers(headers);
  EXPECT_EQ(headers.size(), 2U);
  EXPECT_TRUE(headers.contains("x-kcp-virtual-resource-hops"));
}

/// A proxy that serves clusters/*, with an entry of a mapping file and a mount.
class Forms : public ::testing::Test {
 protected:
  Forms()
      : rig(nullptr, [](ProxyHandlerParams& params) {
          params.wildcard = true;
          params.groups = {GroupMode::kProxy, GroupMode::kProxy};
        }) {
    rig.permissions.allow = true;
    rig.shard.answer = [](Exchange& exchange) { FakeShard::reply(exchange, 200, "{}"); };
    const std::string url = "http://127.0.0.1:" + std::to_string(rig.shard_port);
    const auto entries =
        parse_mapping("- path: /mapped/{x}\n  backend: " + url +
                          "\n- path: /view\n  backend: " + url + "/services/apiexport/c1/e\n",
                      "mapping.yaml");
    EXPECT_TRUE(entries);
    rig.handler->set_routes(std::make_shared<const RouteTable>(*entries), true);
  }

  struct Got {
    int status = 0;
    bool upstream = false, refused = false;
  };
  Got ask(const std::string& target,
          const std::vector<std::pair<std::string, std::string>>& fields) {
    http::RequestHead head = Rig::get(target);
    for (const auto& [name, value] : fields) {
      head.headers.add(name, value);
    }
    const std::size_t before = rig.shard.exchanges.size();
    rig.local.last = {};
    Answer answer;
    rig.ask(answer, head);
    return {answer.status, rig.shard.exchanges.size() > before || !rig.local.last.target.empty(),
            answer.body.find(kRefusal) != std::string::npos};
  }

  Rig rig;
};

const std::vector<std::string> kOfOneCluster = {
    "/clusters/c1/api/v1/namespaces",
    "/clusters/root:one/api/v1/namespaces",
    "/shards/alpha/clusters/c1/api/v1/namespaces",
    "/clusters/root/apis/topology.kcp.io/v1alpha1/partitions",
    "/clusters/root/apis",
    "/mapped/a/b",
};
const std::vector<std::string> kShared = {
    "/clusters/*/api/v1/configmaps",
    "/clusters/%2A/api/v1/configmaps",
    "/clusters/*/apis/topology.kcp.io/v1alpha1/partitions",
    "/clusters/*/apis",
    "/shards/alpha/clusters/*/api/v1/configmaps",
    "/services/apiexport/c1/e/clusters/c1/api/v1/namespaces",
    "/services/apiexport/c1/e/clusters/*/api/v1/namespaces",
    "/shards/alpha/services/apiexport/c1/e/clusters/c1/api/v1/namespaces",
    "/services/initializingworkspaces/root:t/clusters/c1/api/v1/namespaces",
    "/view/clusters/c1/api/v1/namespaces",
};

TEST_F(Forms, WhenWhatIsAskedForIsReserved_SET007_NothingIsSentByAnyForm) {
  rig.log_in();
  std::vector<std::string> all = kOfOneCluster;
  all.insert(all.end(), kShared.begin(), kShared.end());
  const std::vector<std::pair<std::string, std::string>> reserved = {
      {"impersonate-group", "system:masters"},
      {"Impersonate-Group", "system:kcp:admin"},
      {"impersonate_group", "system:kcp:external-logical-cluster-admin"},
      {"impersonate-group", "system:kcp:initializer:root:t"},
      {"impersonate-group", "apis.kcp.io:binding:y"},
      {"impersonate-group", "system:cluster:c2"},
      {"impersonate-extra-authorization.kcp.io%2fwarrant", "{}"},
      {"Impersonate_Extra-authentication.kcp.io%2Fcluster-name", "c2"},
  };
  for (const std::string& target : all) {
    for (const auto& field : reserved) {
      const Got got = ask(target, {{"impersonate-user", "bob"}, field});
      EXPECT_EQ(got.status, 403) << target << " " << field.first << ": " << field.second;
      EXPECT_TRUE(got.refused) << target;
      EXPECT_FALSE(got.upstream) << target << " " << field.second;
    }
    EXPECT_EQ(ask(target, {{"impersonate-user", "system:admin"}}).status, 403) << target;
  }
}

TEST_F(Forms, WhenThePlaceIsShared_KK327_NobodyButTheMastersSpeaksForOthers) {
  rig.log_in("system:kcp:admin");
  for (const std::string& target : kShared) {
    for (const char* name : {"impersonate-user", "IMPERSONATE-USER", "impersonate_user",
                             "impersonate-group", "impersonate-extra-x"}) {
      const Got got = ask(target, {{name, "bob"}});
      EXPECT_EQ(got.status, 403) << target << " " << name;
      EXPECT_TRUE(got.refused && !got.upstream) << target << " " << name;
    }
  }
  for (const std::string& target : kOfOneCluster) {
    EXPECT_TRUE(ask(target, {{"impersonate-user", "bob"}}).upstream) << target;
  }
}

TEST_F(Forms, WhenTheRequesterIsOfTheMasters_AnythingIsPassedOn) {
  rig.log_in("system:masters");
  for (const std::string& target : {kOfOneCluster.front(), kShared[4], kShared[5]}) {
    const Got got =
        ask(target, {{"impersonate-user", "bob"}, {"impersonate-group", "system:kcp:admin"}});
    EXPECT_TRUE(got.upstream && !got.refused) << target;
  }
}

TEST_F(Forms, WhenTooMuchIsAskedFor_SE051_IsABadRequestByAnyForm) {
  rig.log_in();
  for (const std::string& target : kOfOneCluster) {
    EXPECT_EQ(ask(target, {{"impersonate-user", "a"}, {"impersonate-user", "b"}}).status, 400);
    EXPECT_EQ(ask(target, {{"impersonate-user", "a"}, {"Impersonate_User", "b"}}).status, 400);
    std::vector<std::pair<std::string, std::string>> many(65, {"impersonate-group", "g"});
    const Got got = ask(target, many);
    EXPECT_EQ(got.status, 400) << target;
    EXPECT_FALSE(got.upstream) << target;
  }
}

TEST_F(Forms, WhenSpelledOddly_WhatIsHarmlessIsPassedOnByItsName) {
  rig.log_in();
  EXPECT_TRUE(ask("/clusters/c1/api", {{"impersonate-user", "bob"},
                                       {"impersonate_group", "devs"},
                                       {"x-kcp-internal-deep-subjectaccessreview", "true"}})
                  .upstream);
  const http::HeaderList& seen = rig.shard.exchanges.back().head.headers;
  EXPECT_EQ(seen.get("impersonate-user"), "bob");
  EXPECT_EQ(seen.get("impersonate-group"), "devs");
  EXPECT_FALSE(seen.contains("impersonate_group"));
  EXPECT_FALSE(seen.contains("x-kcp-internal-deep-subjectaccessreview"));
}

TEST_F(Forms, WhenNobodyIsKnown_ReservedOnesAreRefusedBeforeAShardJudges) {
  const Got masters = ask("/clusters/c1/api", {{"authorization", "Bearer t"},
                                               {"impersonate-user", "bob"},
                                               {"impersonate-group", "system:masters"}});
  EXPECT_TRUE(masters.status == 403 && !masters.upstream);
  EXPECT_TRUE(ask("/clusters/c1/api", {{"authorization", "Bearer t"},
                                       {"impersonate-user", "bob"},
                                       {"impersonate-group", "system:authenticated"}})
                  .upstream);
}

}  // namespace
}  // namespace kintsugi::proxy
