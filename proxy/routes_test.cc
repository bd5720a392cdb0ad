// What /explain tells of a request, and what becomes of it: the same, for every form of path.
#include <gmock/gmock.h>

#include <algorithm>
#include <list>
#include <optional>

#include "base/strings.h"
#include "krm/json.h"
#include "proxy/explain/explain.h"
#include "proxy/routing/group_owners.h"
#include "proxy/testing/rig.h"
#include "serving/answer.h"
#include "topology/resolver.h"

namespace kintsugi::proxy {
namespace {

using krm::Json;
using testing::Answer;
using testing::Exchange;
using testing::FakeShard;
using testing::Rig;

constexpr const char* kMaps = R"({"kind":"ConfigMapList","apiVersion":"v1",)"
                              R"("metadata":{"resourceVersion":"5"},"items":[]})";
constexpr const char* kGroups = R"({"kind":"APIGroupList","apiVersion":"v1","groups":[]})";
constexpr const char* kBookmark =
    R"({"type":"BOOKMARK","object":{"kind":"ConfigMap","apiVersion":"v1",)"
    R"("metadata":{"resourceVersion":"6","annotations":{"k8s.io/initial-events-end":"true"}}}})"
    "\n";

constexpr const char* kExternal = "https://proxy.example:6443";

void serve(Exchange& exchange) {
  const std::string& target = exchange.head.target;
  const std::string path = target.substr(0, target.find('?'));
  if (target.find("watch=true") != std::string::npos) {
    http::HeaderList headers;
    headers.add("content-type", "application/json");
    exchange.stream->send_head(200, headers, false);
    exchange.stream->send_data(std::string_view(kBookmark), false);
  } else {
    FakeShard::reply(exchange, 200, path.ends_with("/apis") ? kGroups : kMaps);
  }
}

/// Shards alpha (root, root:one = c1) and beta (b1), of which beta holds a binding of c1's export
/// `e`; a backend of the mapping file; mounts; a Partition of beta.
class Routes : public ::testing::Test {
 protected:
  explicit Routes(GroupModes modes = {}) {
    beta_.answer = backend_.answer = serve;
    rig_ = std::make_unique<Rig>(nullptr, [this, modes](ProxyHandlerParams& params) {
      if (modes.any_auto()) {
        params.groups = modes;
        params.owners = ask_with(params, modes);
      }
      beta_listener_ = Rig::must(net::Listener::open(params.loop, {}, beta_));
      backend_listener_ = Rig::must(net::Listener::open(params.loop, {}, backend_));
      const std::string url = url_of(backend_listener_);
      const auto entries = parse_mapping("- path: /mapped/{x}\n  backend: " + url +
                                             "\n- path: /of/{cluster}\n  backend: " + url + "\n",
                                         "mapping.yaml");
      EXPECT_TRUE(entries);
      params.routes = mapping_ = std::make_shared<const RouteTable>(*entries);
      params.wildcard = true;
      params.mounts.external_url = kExternal;
    });
    rig_->permissions.allow = true;
    rig_->log_in("system:kcp:admin");
    rig_->shard.answer = serve;
    rig_->local.body = kGroups;
    topology::ShardSpec spec;
    spec.name = "beta";
    spec.base_url = url_of(beta_listener_);
    spec.labels = {{"region", "eu"}};
    rig_->partitions["root/eu"] =
        *Json::parse(R"({"spec":{"selector":{"matchLabels":{"region":"eu"}}}})");
    rig_->add_shard(spec);
    topology::Index& index = rig_->index;
    for (const char* name : {"alpha", "beta"}) {
      for (std::size_t i = 0; i < topology::kResources; ++i) {
        index.set_synced(index.now().shard(name)->id, static_cast<topology::Resource>(i), true);
      }
    }
    const topology::ShardId alpha = index.now().shard("alpha")->id;
    const topology::ShardId beta = index.now().shard("beta")->id;
    index.upsert_cluster(beta, {"b1", "", {}, false});
    index.upsert_cluster(alpha, {"idle", "", {}, true});
    mount(alpha, "inside", std::string(kExternal) + "/clusters/root:one");
    mount(alpha, "evil", "https://evil.example/clusters/x");
    mount(alpha, "nowhere", std::string(kExternal) + "/other");
    mount(alpha, "again", std::string(kExternal) + "/clusters/root:again");
    topology::ConsumerChanges changes;
    index.upsert_binding(beta, {"b1", "w", "c1", "", "e"}, changes);
    publish();
    sources_.groups = possible_groups(modes);
    if (owners_ != nullptr) {
      sources_.ask_groups = [this](const std::string& cluster, ExplainSources::Groups done) {
        owners_->ask(cluster, std::move(done));
      };
    }
    sources_.wildcard = true;
    sources_.mounts.external_url = kExternal;
    sources_.mapping = [this] { return ExplainSources::Mapping{mapping_, true}; };
    sources_.partition = [this](std::string_view cluster, std::string_view name) {
      const auto found = rig_->partitions.find(std::string(cluster) + "/" + std::string(name));
      return found != rig_->partitions.end() ? std::optional(found->second) : std::nullopt;
    };
  }
  ~Routes() override {
    beta_listener_->close();
    backend_listener_->close();
  }

  /// Asks the shards at which the topology has the clusters, with connections of its own.
  GroupOwners* ask_with(const ProxyHandlerParams& params, GroupModes modes) {
    owners_ = std::make_unique<GroupOwners>(
        params.loop,
        [this, view = params.view, &pool = params.pool](std::string_view cluster) {
          const topology::Resolution found = topology::resolve(view->current(), cluster);
          shards::ShardClient* client = found.resolved() ? pool.find(found.shard->id) : nullptr;
          if (client == nullptr || unreachable_) {
            return Expected<ReviewTarget>(fail(serving::shard_unreachable(false)));
          }
          return Expected<ReviewTarget>(
              ReviewTarget{client->upstream(), "/clusters/" + std::string(cluster)});
        },
        modes);
    return owners_.get();
  }
  static std::string url_of(const std::unique_ptr<net::Listener>& listener) {
    return "http://127.0.0.1:" + std::to_string(listener->port());
  }
  void mount(topology::ShardId shard, const std::string& name, const std::string& url) {
    topology::WorkspaceReport report = topology::edge("root", name, "");
    report.mount = true;
    report.url = url;
    rig_->index.upsert_workspace(shard, report);
  }
  void publish() {
    rig_->publisher.publish(rig_->index.freeze());
    const std::uint64_t wanted = rig_->index.now().generation();
    ASSERT_TRUE(rig_->until([&] { return rig_->view->current().generation() == wanted; }));
  }

  /// What /explain says of a path, in one line: "<route> <reason> <status> <who is asked>".
  [[nodiscard]] std::string told(const std::string& path, const std::string& method) {
    std::optional<Json> document;
    explain([this]() -> const topology::Snapshot& { return rig_->index.now(); }, sources_, path,
            method, [&document](const Json& told_of) { document = told_of; });
    EXPECT_TRUE(document || rig_->until([&document] { return document.has_value(); })) << path;
    const Json shown = document.value_or(Json::object({{"result", Json::object({})}}));
    const Json& result = *shown.find("result");
    const std::string_view handler = result.text({"handler"});
    std::vector<std::string> asked;
    for (const char* field : {"mergedOver", "unionOf", "anyOf"}) {
      if (const Json* names = result.find(field)) {
        for (const Json& name : names->items()) {
          asked.emplace_back(name.as_string());
        }
      }
    }
    if (handler == "backend") {
      asked.emplace_back("backend");
    } else if (handler.ends_with("shard")) {
      if (const std::string_view shard = result.text({"shard"}); !shard.empty()) {
        asked.emplace_back(shard);
      }
    }
    const bool serves = result.text({"route"}) == "served" && result.find("status") == nullptr;
    if (handler.starts_with("proxy and ") || serves) {
      asked.emplace_back("proxy");
    }
    const Json* status = result.find("status");
    return line(result.text({"route"}), result.text({"reason"}),
                status != nullptr ? static_cast<int>(status->as_integer()) : 200, std::move(asked));
  }

  /// The same of the request itself; what nobody can see from outside is taken over from `said`.
  [[nodiscard]] std::string seen(const http::RequestHead& head, const std::string& said) {
    const std::size_t alpha = rig_->shard.exchanges.size(), beta = beta_.exchanges.size();
    const std::size_t backend = backend_.exchanges.size();
    rig_->local.last = {};
    Answer answer;
    rig_->send(answer, head);
    const bool watches = head.target.find("watch=true") != std::string::npos;
    EXPECT_TRUE(rig_->until([&] {
      return answer.closed || (watches && answer.body.find("BOOKMARK") != std::string::npos);
    })) << head.target;
    std::vector<std::string> asked;
    if (rig_->shard.exchanges.size() > alpha) {
      asked.emplace_back("alpha");
    }
    if (beta_.exchanges.size() > beta) {
      asked.emplace_back("beta");
    }
    if (backend_.exchanges.size() > backend) {
      asked.emplace_back("backend");
    }
    if (!rig_->local.last.target.empty()) {
      asked.emplace_back("proxy");
    }
    const std::vector<std::string_view> words = split(said, '|');
    return line(words.at(0), words.at(1), answer.status, std::move(asked));
  }

  static std::string line(std::string_view route, std::string_view reason, int status,
                          std::vector<std::string> asked) {
    std::sort(asked.begin(), asked.end());
    asked.erase(std::unique(asked.begin(), asked.end()), asked.end());
    std::string out =
        std::string(route) + "|" + std::string(reason) + "|" + std::to_string(status) + "|";
    for (const std::string& one : asked) {
      out += (out.back() == '|' ? "" : " ") + one;
    }
    return out;
  }

  FakeShard beta_, backend_;
  bool unreachable_ = false;  ///< for those who ask shards which groups they have
  std::unique_ptr<GroupOwners> owners_;
  std::unique_ptr<net::Listener> beta_listener_, backend_listener_;
  std::shared_ptr<const RouteTable> mapping_;
  std::unique_ptr<Rig> rig_;
  ExplainSources sources_;
};

struct Form {
  const char* path;
  const char* expected;  ///< "<route>|<reason>|<status>|<who is asked>"
  const char* method = "GET";
};

constexpr Form kForms[] = {
    // Built in.
    {"/livez", "probe||200|"},
    {"/readyz/informer-sync", "probe||200|"},
    {"/%6civez", "probe||200|"},
    {"/livez", "probe|method-not-allowed|405|", "POST"},
    {"/metrics", "metrics||200|"},
    {"/metrics", "metrics|method-not-allowed|405|", "DELETE"},
    // One logical cluster.
    {"/clusters/root/api/v1/configmaps", "forwarded||200|alpha"},
    {"/clusters/root:one/api/v1/configmaps?limit=1", "forwarded||200|alpha"},
    {"/clusters/root%3Aone/api/v1/configmaps", "forwarded||200|alpha"},
    {"/%63lusters/c1/api/v1/configmaps", "forwarded||200|alpha"},
    {"/clusters/b1", "forwarded||200|beta"},
    {"/clusters/b1/apis/g.io/v1/things/a%2Fb", "forwarded||200|beta"},
    {"/clusters/b1/api/v1/configmaps/a", "forwarded||200|beta", "DELETE"},
    {"/clusters/root/apis/topology.kcp.io/v1alpha1/partitions", "served||200|proxy"},
    {"/clusters/root/apis/apis.kcp.io/v1alpha1/apiexportendpointslices/s", "served||200|proxy"},
    {"/clusters/b1/%61pis/topology.kcp.io/v1alpha1/partitions", "served||200|proxy"},
    {"/clusters/idle/apis/topology.kcp.io/v1alpha1/partitions",
     "served|logical-cluster-inactive|403|"},
    {"/clusters/b1/apis", "overlaid||200|beta proxy"},
    {"/clusters/root:nope/api", "refused|unknown|403|"},
    {"/clusters/Not_a_name/api", "refused|invalid|403|"},
    {"/clusters/a%2Fb/api", "refused|invalid|403|"},
    {"/clusters/root:closed/api", "refused|workspace-unavailable|503|"},
    {"/clusters/", "refused|no-such-path|404|"},
    {"/clusters", "refused|no-such-path|404|"},
    // Mounts.
    {"/clusters/root:inside/api/v1/configmaps", "forwarded||200|alpha"},
    {"/clusters/root:inside/apis/topology.kcp.io/v1alpha1/partitions", "served||200|proxy"},
    {"/clusters/root:evil/api", "refused|mount-host|403|"},
    {"/clusters/root:nowhere/api", "refused|mount-path|404|"},
    {"/clusters/root:again/api", "refused|mount-loop|508|"},
    {"/clusters/root:inside:deeper/api", "refused|mount-suffix|403|"},
    {"/shards/alpha/clusters/root:inside/api", "refused|mount-below-prefix|403|"},
    // All of them.
    {"/clusters/*/api/v1/configmaps", "merged-list||200|alpha beta"},
    {"/clusters/%2A/api/v1/configmaps", "merged-list||200|alpha beta"},
    {"/clusters/*/api/v1/configmaps?watch=true&allowWatchBookmarks=true&"
     "sendInitialEvents=true&resourceVersionMatch=NotOlderThan",
     "merged-watch||200|alpha beta"},
    {"/clusters/*/apis", "merged-document||200|alpha beta proxy"},
    {"/clusters/*/healthz", "merged-document|of-one-shard-only|405|"},
    {"/clusters/*/apis/topology.kcp.io/v1alpha1/partitions", "served||200|proxy"},
    {"/clusters/*/api/v1/configmaps", "refused|verb-not-for-all-clusters|405|", "DELETE"},
    {"/clusters/*/api/v1/namespaces/n/configmaps", "refused|namespace-and-all-clusters|400|"},
    {"/clusters/*/apis", "refused|method-not-allowed|405|", "POST"},
    // Prefixes.
    {"/shards/alpha/clusters/root/api/v1/configmaps", "forwarded||200|alpha"},
    {"/shards/alpha/clusters/b1/api", "refused|elsewhere|403|"},
    {"/shards/beta/clusters/*/api/v1/configmaps", "of-one-shard||200|beta"},
    {"/shards/beta/clusters/b1/apis/topology.kcp.io/v1alpha1/partitions", "served||200|proxy"},
    {"/shards/nope/clusters/root/api", "refused|no-such-shard|404|"},
    {"/shards/alpha", "refused|no-such-path|404|"},
    {"/partitions/root/eu/clusters/*/api/v1/configmaps", "merged-list||200|beta"},
    {"/partitions/root/none/clusters/*/api/v1/configmaps", "refused|no-such-partition|404|"},
    {"/partitions/root:nope/eu/clusters/*/api/v1/configmaps", "refused|unknown|403|"},
    {"/partitions/root/eu/clusters/b1/api", "refused|no-such-path|404|"},
    // Virtual workspaces.
    {"/services/apiexport/root:one/e/clusters/b1/api/v1/configmaps", "service||200|beta"},
    {"/services/apiexport/c1/e/clusters/*/api/v1/configmaps", "service-merged||200|beta"},
    {"/services/apiexport/c1/e/clusters/*/apis", "service-document||200|beta"},
    {"/services/apiexport/c1/e/clusters/*/api/v1/configmaps",
     "refused|verb-not-for-all-clusters|405|", "DELETE"},
    {"/services/apiexport/c1/e/clusters/root:nope/api", "refused|unknown|403|"},
    {"/services/apiexport/root:nope/e/clusters/*/api", "refused|unknown|403|"},
    {"/services/initializingworkspaces/root:t/clusters/c1/api/v1/configmaps", "service||200|alpha"},
    {"/services/initializingworkspaces/root:t/clusters/*/api/v1/configmaps",
     "service-merged||200|alpha beta"},
    {"/services/terminatingworkspaces/root:t/clusters/b1/api", "service||200|beta"},
    {"/services/replication/c1/e/clusters/*/api", "service||200|alpha"},
    {"/services/apiresourceschema/b1/clusters/*/api", "service||200|beta"},
    {"/services/migratingworkspaces/clusters/*/api", "refused|no-virtual-workspace|404|"},
    {"/services/own/x", "refused|no-virtual-workspace|404|"},
    {"/services/apiexport/c1", "refused|no-virtual-workspace|404|"},
    {"/shards/beta/services/own/x", "service||200|beta"},
    {"/shards/alpha/services/apiexport/c1/e/clusters/*/api/v1/configmaps", "service||200|alpha"},
    {"/shards/alpha/services/apiexport/c1/e/clusters/c1/api", "service||200|alpha"},
    {"/shards/nope/services/apiexport/c1/e/clusters/*/api", "refused|no-such-shard|404|"},
    {"/partitions/root/eu/services/apiexport/c1/e/clusters/*/api/v1/configmaps",
     "service-merged||200|beta"},
    {"/partitions/root/eu/services/apiexport/c1/e/clusters/c1/api", "refused|elsewhere|403|"},
    {"/partitions/root/none/services/apiexport/c1/e/clusters/*/api",
     "refused|no-such-partition|404|"},
    // The mapping file.
    {"/mapped/a/b?c", "mapped||200|backend"},
    {"/mapped/%61", "mapped||200|backend"},
    {"/of/root:one/x", "mapped||200|backend"},
    {"/of/root:nope/x", "refused|unknown|403|"},
    {"/of/root:closed/x", "refused|workspace-unavailable|503|"},
    {"/mapped", "refused|no-such-path|404|"},
    // Nothing, and no path.
    {"/api/v1/configmaps", "refused|no-such-path|404|"},
    {"/clusters//root/api", "refused|unclean|307|"},
    {"/clusters/root/../b1/api", "refused|unclean|307|"},
    {"/clusters/root/a%zz", "refused|malformed|400|"},
    {"/clusters/root/a%00", "refused|malformed|400|"},
    {"/clusters/root/api/v1/x%2F%2Fy", "refused|malformed|400|"},
};

// Also who is asked below a Partition, a shard and a virtual workspace: U2, U4, U6.
TEST_F(Routes, FP142_SE036_WhatIsExplained_IsWhatHappens) {
  for (const Form& form : kForms) {
    const std::string said = told(form.path, form.method);
    EXPECT_EQ(said, form.expected) << "explained: " << form.method << ' ' << form.path;
    EXPECT_EQ(seen(Rig::request(form.method, form.path), said), form.expected)
        << "happened: " << form.method << ' ' << form.path;
  }
  const std::string longest = "/clusters/root/" + std::string(17U << 10, 'a');
  const std::string said = told(longest, "GET");
  EXPECT_EQ(said, "refused|too-long|414|");
  EXPECT_EQ(seen(Rig::get(longest), said), said);
}

/// One of kAdmin is for whichever shard is up: one of those that are told.
TEST_F(Routes, FP142_WhenAnyShardWouldDo_OneOfThoseToldIsAsked) {
  const std::string path = "/services/admin/apis";
  const std::string said = told(path, "GET");
  EXPECT_EQ(said, "service-of-any-shard||200|alpha beta");
  EXPECT_THAT(seen(Rig::get(path), said), ::testing::AnyOf("service-of-any-shard||200|alpha",
                                                           "service-of-any-shard||200|beta"));
}

TEST_F(Routes, FP129_AnInClusterClient_IsSentWhereThePathOfItsClusterIs) {
  const std::string token = base64url_encode(R"({"alg":"ES256"})") + "." +
                            base64url_encode(R"({"kubernetes.io":{"clusterName":"b1"}})") + "." +
                            base64url_encode("signature");
  struct Case {
    const char* sent;
    const char* meant;
    const char* expected;
  };
  for (const Case& one :
       {Case{"/api/v1/configmaps", "/clusters/b1/api/v1/configmaps", "forwarded||200|beta"},
        Case{"/apis", "/clusters/b1/apis", "overlaid||200|beta proxy"},
        Case{"/apis/", "/clusters/b1/apis", "overlaid||200|beta proxy"},
        Case{"/apis/topology.kcp.io/v1alpha1/partitions",
             "/clusters/b1/apis/topology.kcp.io/v1alpha1/partitions", "served||200|proxy"},
        Case{"/clusters/root/api", "/clusters/root/api", "forwarded||200|alpha"}}) {
    const std::string said = told(one.meant, "GET");
    EXPECT_EQ(said, one.expected) << one.meant;
    http::RequestHead head = Rig::get(one.sent);
    head.headers.add("authorization", "Bearer " + token);
    EXPECT_EQ(seen(head, said), one.expected) << one.sent;
  }
}

/// Of mode auto both groups; shard beta has partitions itself.
class RoutesOfAuto : public Routes {
 protected:
  RoutesOfAuto() : Routes({GroupMode::kAuto, GroupMode::kAuto}) {
    beta_.answer = [](Exchange& exchange) {
      if (exchange.head.target.ends_with("/apis/topology.kcp.io/v1alpha1")) {
        FakeShard::reply(exchange, 200, R"({"resources":[{"name":"partitions"}]})");
      } else if (exchange.head.target.ends_with("/v1alpha1")) {
        FakeShard::reply(exchange, 404, "{}");
      } else {
        serve(exchange);
      }
    };
    rig_->shard.answer = [](Exchange& exchange) {
      if (exchange.head.target.ends_with("/v1alpha1")) {
        FakeShard::reply(exchange, 404, "{}");
      } else {
        serve(exchange);
      }
    };
  }
};

constexpr Form kFormsOfAuto[] = {
    {"/clusters/root/api/v1/configmaps", "forwarded||200|alpha"},
    {"/clusters/root/apis/topology.kcp.io/v1alpha1/partitions", "served||200|proxy"},
    {"/clusters/b1/apis/topology.kcp.io/v1alpha1/partitions", "forwarded||200|beta"},
    {"/clusters/b1/%61pis/topology.kcp.io/v1alpha1/partitions", "forwarded||200|beta"},
    {"/clusters/root:one/apis", "overlaid||200|alpha proxy"},
};

/// Nobody is told "asked-first" who asks what becomes of a request: the shard is asked for that,
/// too. So it is of a ServiceAccount's request, which names no logical cluster.
TEST_F(RoutesOfAuto, FP142_SE036_WhatIsExplained_IsWhatHappens) {
  for (const Form& form : kFormsOfAuto) {
    EXPECT_EQ(explain_path(rig_->index.now(), sources_, form.path).text({"result", "route"}),
              std::string_view(form.expected).starts_with("forwarded||200|alpha") ? "forwarded"
                                                                                  : "asked-first")
        << "nobody was asked: " << form.path;
    const std::string said = told(form.path, form.method);
    EXPECT_EQ(said, form.expected) << "explained: " << form.path;
    EXPECT_EQ(seen(Rig::request(form.method, form.path), said), form.expected)
        << "happened: " << form.path;
  }
  const std::string token = base64url_encode(R"({"alg":"ES256"})") + "." +
                            base64url_encode(R"({"kubernetes.io":{"clusterName":"b1"}})") + "." +
                            base64url_encode("signature");
  http::RequestHead head = Rig::get("/apis/topology.kcp.io/v1alpha1/partitions");
  head.headers.add("authorization", "Bearer " + token);
  const std::string said = told("/clusters/b1" + head.target, "GET");
  EXPECT_EQ(said, "forwarded||200|beta");
  EXPECT_EQ(seen(head, said), said);
}

TEST_F(RoutesOfAuto, FP142_WhenTheShardDoesNotTell_TheRefusalIsExplained) {
  unreachable_ = true;
  const std::string path = "/clusters/b1/apis/topology.kcp.io/v1alpha1/partitions";
  const std::string said = told(path, "GET");
  EXPECT_EQ(said, "asked-first||503|");
  EXPECT_EQ(seen(Rig::get(path), said), said);
}

TEST_F(Routes, FP142_WhileAShardIsNotListed_NobodyKnowsWhatIsUnknown) {
  rig_->index.set_synced(rig_->index.now().shard("beta")->id, topology::Resource::kWorkspaces,
                         false);
  rig_->index.set_synced(rig_->index.now().shard("beta")->id, topology::Resource::kLogicalClusters,
                         false);
  publish();
  for (const char* path : {"/clusters/unheard/api", "/of/unheard/x",
                           "/services/apiexport/c1/e/clusters/unheard/api"}) {
    const std::string said = told(path, "GET");
    EXPECT_EQ(said, "refused|not-known-yet|503|") << path;
    EXPECT_EQ(seen(Rig::get(path), said), said) << path;
  }
}

/// What /debug/routes lists is what /explain says of its examples.
TEST_F(Routes, FP142_TheListOfForms_IsMadeOfDecisions) {
  const Json forms = route_forms(rig_->index.now(), sources_);
  std::vector<std::string> shown;
  for (const Json& form : forms.items()) {
    shown.push_back(std::string(form.text({"path"})) + " " + std::string(form.text({"route"})));
    if (const std::string_view example = form.text({"example"}); !example.empty()) {
      const Json told_of = explain_path(rig_->index.now(), sources_, example);
      EXPECT_EQ(told_of.text({"result", "route"}), form.text({"route"})) << example;
      EXPECT_EQ(told_of.text({"result", "handler"}), form.text({"handler"})) << example;
    }
  }
  for (const char* line :
       {"/clusters/*/… (list) merged-list", "/services/<vw>/…/clusters/*/… (list) service-merged",
        "/services/<vw>/…/clusters/*/apis service-document", "/mapped/{x} mapped",
        "/clusters/<cluster>/… forwarded"}) {
    EXPECT_THAT(shown, ::testing::Contains(line));
  }
}

TEST(RouteReasons, FP142_AreWords) {
  for (int i = 1; i <= static_cast<int>(RouteReason::kBadQuestion); ++i) {
    const std::string_view name = route_reason_name(static_cast<RouteReason>(i));
    EXPECT_GE(name.size(), 4U) << i;
    EXPECT_EQ(name.find_first_not_of("abcdefghijklmnopqrstuvwxyz-"), std::string_view::npos)
        << name;
  }
}

}  // namespace
}  // namespace kintsugi::proxy
