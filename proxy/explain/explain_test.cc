#include "proxy/explain/explain.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "auth/request_header.h"
#include "topology/index.h"
#include "topology/testing/reports.h"

namespace kintsugi::proxy {
namespace {

using krm::Json;
using testing::ElementsAre;

class Explain : public ::testing::Test {
 protected:
  Explain() {
    for (const char* name : {"beta", "gama"}) {
      topology::ShardSpec spec;
      spec.name = name;
      spec.base_url = std::string("https://") + name;
      spec.virtual_workspace_url = std::string("https://vw-") + name + "/kcp";
      const auto id = index.upsert_shard(spec).id;
      for (std::size_t i = 0; i < topology::kResources; ++i) {
        index.set_synced(id, static_cast<topology::Resource>(i), true);
      }
    }
    index.upsert_cluster(1, {"root", "root", {}, false});
    index.upsert_cluster(1, topology::owned("one", "root", "org", "root:org"));
    index.upsert_cluster(2, {"two", "", {}, false});
    index.upsert_workspace(1, topology::edge("root", "org", "one"));
    index.set_shards_listed();
    topology::ConsumerChanges changes;
    index.upsert_binding(2, {"two", "w", "one", "", "widgets"}, changes);
    sources.partition = [](std::string_view cluster, std::string_view name) {
      return cluster == "one" && name == "p"
                 ? std::optional(*Json::parse(R"({"spec":{"selector":{"matchLabels":{"x":"y"}}}})"))
                 : std::nullopt;
    };
    sources.slice = [](std::string_view cluster, std::string_view name) {
      return cluster == "one" && name == "s"
                 ? std::optional(
                       *Json::parse(R"({"spec":{"export":{"path":"root:org","name":"widgets"}},)"
                                    R"("status":{"endpoints":[{"url":"https://u"}]}})"))
                 : std::nullopt;
    };
    sources.slice_shards = [](const Json&) {
      return std::vector<endpointslice::ShardPart>{{"beta", true, true, {}},
                                                   {"gama", true, true, {}}};
    };
  }
  [[nodiscard]] Json ask(std::string_view path) const {
    return explain_path(index.now(), sources, path);
  }
  /// "<shard> <selected><effective><contacted> <why>"
  static std::vector<std::string> rows(const Json& shards) {
    std::vector<std::string> lines;
    for (const Json& one : shards.items()) {
      std::string line(one.text({"shard"}));
      line += " ";
      for (const char* field : {"selected", "effective", "contacted"}) {
        line += one.find(field)->dump() == "true" ? "+" : "-";
      }
      lines.push_back(line + " " + std::string(one.text({"why"})));
    }
    return lines;
  }

  topology::Index index;
  ExplainSources sources;
};

TEST_F(Explain, FP142_WhenAVirtualWorkspaceIsNamed_TellsTheShardAndItsUrl) {
  const Json found = ask("/services/apiexport/root:org/widgets/clusters/two/api?x");
  EXPECT_EQ(found.text({"result", "shard"}), "gama");
  EXPECT_EQ(found.text({"result", "upstream"}),
            "https://vw-gama/kcp/services/apiexport/one/widgets/clusters/two/api?x");
  EXPECT_GE(found.find("steps")->size(), 3U) << "of both clusters";
  EXPECT_EQ(
      ask("/services/apiexport/one/widgets/clusters/root:nope/api").text({"result", "reason"}),
      "unknown");
  EXPECT_EQ(ask("/services/none/x").text({"result", "reason"}), "no-virtual-workspace");
  EXPECT_EQ(ask("/services/none/x").text({"result", "message"}),
            "the server could not find the requested resource");
  EXPECT_EQ(ask("/shards/nope/services/apiexport/one/widgets/clusters/two/api")
                .text({"result", "reason"}),
            "no-such-shard");
}

TEST_F(Explain, WhenAWildcardIsRead_TellsWhichShardsAreContactedAndWhyOthersNot) {
  EXPECT_THAT(rows(*ask("/services/apiexport/one/widgets/clusters/*/apis/g/v1/w").find("shards")),
              ElementsAre("beta +-- it holds no APIBinding of the export", "gama +++ "));
  EXPECT_EQ(ask("/services/apiexport/one/widgets/clusters/*/apis/g/v1/w")
                .at({"result", "mergedOver"})
                ->dump(),
            "[\"gama\"]");
  EXPECT_THAT(
      rows(*ask("https://proxy/kcp/shards/beta/services/apiexport/one/widgets").find("shards")),
      ElementsAre("beta +-- it holds no APIBinding of the export",
                  "gama --- the prefix of the URL leaves it out"));
  EXPECT_THAT(rows(*ask("https://proxy/partitions/root:org/p/services/apiexport/one/widgets")
                        .find("shards")),
              ElementsAre("beta --- the prefix of the URL leaves it out",
                          "gama --- the prefix of the URL leaves it out"));
  EXPECT_EQ(ask("/partitions/one/q/services/apiexport/one/widgets").text({"result", "reason"}),
            "no-such-partition");
  index.set_synced(1, topology::Resource::kBindings, false);
  EXPECT_THAT(rows(*ask("/services/apiexport/one/widgets/clusters/*/apis/g/v1/w").find("shards")),
              ElementsAre("beta +-+ its APIBindings are not listed yet", "gama +++ "));
}

TEST_F(Explain, WhenASliceIsNamed_TellsItsShards) {
  const Json found =
      ask("/clusters/root:org/apis/apis.kcp.io/v1alpha1/apiexportendpointslices/s?watch=1");
  EXPECT_EQ(found.text({"result", "handler"}), "proxy");
  EXPECT_EQ(found.at({"slice", "endpoints"})->size(), 1U);
  EXPECT_THAT(rows(*found.at({"slice", "shards"})),
              ElementsAre("beta ++- it holds no APIBinding of the export", "gama +++ "));
  const Json missing = ask("/clusters/one/apis/apis.kcp.io/v1alpha1/apiexportendpointslices/t");
  EXPECT_EQ(missing.at({"slice", "found"})->dump(), "false");
}

TEST_F(Explain, WhenAClusterIsNamed_TellsItsRoute) {
  EXPECT_EQ(ask("root:org").text({"result", "upstream"}), "https://beta/clusters/one");
  EXPECT_EQ(ask("/shards/beta/clusters/root:org/api").text({"result", "upstream"}),
            "https://beta/clusters/one/api");
  EXPECT_EQ(ask("root:nope").text({"result", "reason"}), "unknown");
  EXPECT_EQ(ask("root:nope").at({"result", "status"})->dump(), "403");
}

/// As dump() writes it: keys in their order.
std::string sorted(std::string_view json) { return Json::parse(json)->dump(); }

TEST_F(Explain, OP_111_TheRightIsThatOfWhatTheRequestIs) {
  const auto right = [this](std::string_view path, std::string_view method = "GET") {
    return explain_path(index.now(), sources, path, method).find("right")->dump();
  };
  EXPECT_EQ(
      right("/clusters/root:org/api/v1/namespaces/n/configmaps/c/status", "PATCH"),
      sorted(R"({"cluster":"one","verb":"patch","group":"","version":"v1",)"
             R"("resource":"configmaps","subresource":"status","namespace":"n","name":"c"})"));
  EXPECT_EQ(right("root:org"), sorted(R"({"cluster":"one","verb":"access","path":"/"})"));
  EXPECT_EQ(right("/clusters/two/version"),
            sorted(R"({"cluster":"two","verb":"get","path":"/version"})"));
  EXPECT_EQ(
      right("/services/apiexport/root:org/widgets/clusters/two/apis/a/v1/bs"),
      sorted(
          R"({"cluster":"one","verb":"list","group":"apis.kcp.io","version":"v1alpha1",)"
          R"("resource":"apiexports","subresource":"content","namespace":"","name":"widgets"})"));
  sources.wildcard = true;
  EXPECT_EQ(right("/clusters/*/api/v1/configmaps"),
            sorted(R"({"why":"each shard decides that by itself"})"));
  sources.reviewed = true;
  EXPECT_EQ(right("/clusters/*/api/v1/configmaps"),
            sorted(R"({"cluster":"root","verb":"get","path":"/clusters/*/api/v1/configmaps"})"));
  EXPECT_EQ(right("root:nobody"), sorted(R"({"why":"it is refused, whoever asks"})"));
}

TEST_F(Explain, OP_111_AReviewIsAskedAsTheProxyWouldPassTheUserOn) {
  auth::Attributes seen;
  Expected<auth::Decision> answer = auth::Decision{false, "no rule"};
  sources.review = [&](const auth::Attributes& asked, auth::Authorizer::Done done) {
    seen = asked;
    done(answer ? Expected<auth::Decision>(*answer)
                : Expected<auth::Decision>(fail(answer.error().clone())));
  };
  sources.passed_groups = [](const std::vector<std::string>& groups) {
    return auth::filter_groups(groups, {}, auth::default_drop_groups());
  };
  const auto review = [this](std::string_view path, const std::string& user,
                             std::vector<std::string> groups) {
    Json out;
    auth::UserInfo who;
    who.name = user;
    who.groups = std::move(groups);
    explain_for([this]() -> const topology::Snapshot& { return index.now(); }, sources,
                std::string(path), "GET", std::move(who),
                [&out](const Json& document) { out = *document.find("review"); });
    return out.dump();
  };
  EXPECT_EQ(review("root:org", "ada", {"system:masters", "team"}),
            sorted(R"({"user":"ada","groups":["system:authenticated","team"],"allowed":false,)"
                   R"("reason":"no rule"})"));
  EXPECT_EQ(seen.user.name, "ada");
  EXPECT_THAT(seen.user.groups, ElementsAre("system:authenticated", "team"));
  EXPECT_EQ((seen.cluster + " " + seen.verb), "one access");
  (void)review("root:org", "system:serviceaccount:default:bot", {});
  EXPECT_THAT(seen.user.groups, ElementsAre("system:authenticated", "system:serviceaccounts",
                                            "system:serviceaccounts:default"));
  ASSERT_NE(seen.user.extra_values(auth::kExtraClusterName), nullptr);
  EXPECT_THAT(*seen.user.extra_values(auth::kExtraClusterName), ElementsAre("one"));
  answer = fail(Errc::kUnavailable, "nobody answers");
  EXPECT_NE(review("root:org", "ada", {}).find(R"("error":"nobody answers")"), std::string::npos);
  seen = {};
  EXPECT_NE(review("root:nobody", "ada", {}).find(R"("why":"it is refused, whoever asks")"),
            std::string::npos);
  EXPECT_EQ(seen.user.name, "") << "nobody is asked";
}

}  // namespace
}  // namespace kintsugi::proxy
