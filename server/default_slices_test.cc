// Default slices, slices that exports own, and slices that follow consumers and paths.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "server/testing/stack.h"

namespace kintsugi::server::testing_stack {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

class DefaultSlices : public Controllers {
 protected:
  DefaultSlices() {
    world_.add("a", {});
    world_.record.skip_default_slice = false;
    world_.record.path = "root:org";
  }
  void export_changed() {
    replicas_.front()->slices.export_changed(kCluster, "widgets");
    settle();
  }
  [[nodiscard]] std::vector<std::string> names() const {
    std::vector<std::string> all;
    for (const auto& [name, unused] : versions(kApis, kSlices)) {
      all.push_back(name);
    }
    return all;
  }
};

TEST_F(DefaultSlices, TP052_WhenAnExportIsThere_ItHasASliceOfItsNameAgainAndAgain) {
  start();
  settle();
  const Json first = get(kApis, kSlices, "widgets");
  EXPECT_EQ(first.at({"spec", "export"})->dump(), R"({"name":"widgets","path":"root:org"})");
  EXPECT_EQ(first.at({"metadata", "ownerReferences"})->dump(),
            R"([{"apiVersion":"apis.kcp.io/v1alpha1","kind":"APIExport","name":"widgets",)"
            R"("uid":"uid-1"}])");
  remove(kApis, kSlices, "widgets");
  settle();
  const Json again = get(kApis, kSlices, "widgets");
  EXPECT_NE(again.text({"metadata", "uid"}), first.text({"metadata", "uid"}));
  EXPECT_FALSE(again.text({"metadata", "uid"}).empty());
}

TEST_F(DefaultSlices, TP052_WhenTheSkipAnnotationIsThere_ItStaysAway) {
  start();
  settle();
  world_.record.skip_default_slice = true;
  remove(kApis, kSlices, "widgets");
  settle();
  EXPECT_THAT(names(), IsEmpty());
}

TEST_F(DefaultSlices, WhenASliceOfThatNameIsThere_ItIsLeftAlone) {
  world_.record.skip_default_slice = true;
  start();
  make_slice("widgets");
  settle();
  const std::string before(get(kApis, kSlices, "widgets").text({"metadata", "uid"}));
  world_.record.skip_default_slice = false;
  export_changed();
  const Json slice = get(kApis, kSlices, "widgets");
  EXPECT_EQ(slice.text({"metadata", "uid"}), before);
  EXPECT_EQ(slice.at({"metadata", "ownerReferences"}), nullptr);
  world_.record.name = "gone";
  export_changed();
  EXPECT_THAT(names(), ElementsAre("widgets")) << "the export never owned it";
}

TEST_F(DefaultSlices, WhenTheExportWithThatUidIsGone_WhatItOwnedGoes) {
  start();
  settle();
  const auto own = [&](const std::string& name, std::string_view owners) {
    create(kApis, kSlices,
           Json::object(
               {{"apiVersion", "apis.kcp.io/v1alpha1"},
                {"kind", "APIExportEndpointSlice"},
                {"metadata", Json::object({{"name", name}, {"ownerReferences", parse(owners)}})},
                {"spec", parse(R"({"export":{"name":"widgets"}})")}}));
  };
  const std::string widgets =
      R"({"apiVersion":"apis.kcp.io/v1alpha2","kind":"APIExport","name":"widgets","uid":"uid-1"})";
  own("mine", "[" + widgets + "]");
  own("shared",
      "[" + widgets + R"(,{"apiVersion":"v1","kind":"ConfigMap","name":"c","uid":"uid-c"}])");
  make_slice("free");
  settle();
  EXPECT_THAT(names(), ElementsAre("free", "mine", "shared", "widgets"));
  const std::string before(get(kApis, kSlices, "widgets").text({"metadata", "uid"}));
  world_.record.uid = "uid-2";  // deleted and made again
  export_changed();
  EXPECT_THAT(names(), ElementsAre("free", "shared", "widgets"));
  const Json now = get(kApis, kSlices, "widgets");
  EXPECT_NE(now.text({"metadata", "uid"}), before);
  EXPECT_EQ(now.at({"metadata", "ownerReferences"})->items().front().text({"uid"}), "uid-2");
  world_.record.name = "other";
  export_changed();
  EXPECT_THAT(names(), ElementsAre("free", "shared", "widgets")) << "it may only be moving";
  run_until([&] { return names() == std::vector<std::string>{"free", "shared"}; });
}

TEST_F(DefaultSlices, WhenAnExportMoves_ItsSliceStays) {
  start();
  settle();
  const std::string before(get(kApis, kSlices, "widgets").text({"metadata", "uid"}));
  world_.record.name = "elsewhere";
  export_changed();
  world_.record.name = "widgets";
  export_changed();
  bool over = false;
  net::Timer timer(loop_);
  timer.start(milliseconds(700), [&] { over = true; });  // longer than the grace
  run_until([&] { return over; });
  settle();
  EXPECT_EQ(get(kApis, kSlices, "widgets").text({"metadata", "uid"}), before);
}

TEST_F(DefaultSlices, WhenTheExportWentWhileNobodyLooked_ItsSlicesGoAtTheStart) {
  start();
  settle();
  replicas_.clear();
  world_.record.uid = "uid-2";
  start();
  settle();
  EXPECT_EQ(get(kApis, kSlices, "widgets")
                .at({"metadata", "ownerReferences"})
                ->items()
                .front()
                .text({"uid"}),
            "uid-2");
}

TEST_F(DefaultSlices, TP048_TP050_WhenConsumersComeAndGo_OneWriteEach) {
  world_.record.skip_default_slice = true;
  world_.unbound = {"a"};
  Replica& proxy = start();
  create(kApis, kSlices,
         parse(R"({"apiVersion":"apis.kcp.io/v1alpha1","kind":"APIExportEndpointSlice",
                   "metadata":{"name":"s","annotations":{"kintsugi.dev/consumers":"required"}},
                   "spec":{"export":{"name":"widgets"}}})"));
  settle();
  EXPECT_EQ(condition(get(kApis, kSlices, "s"), "EndpointURLsReady"), "False NoConsumers");
  EXPECT_EQ(proxy.slices.census().not_ready.at("NoConsumers"), 1U);
  const std::uint64_t writes = proxy.slices.stats().writes;
  world_.unbound.clear();
  proxy.slices.export_changed("", "widgets");
  settle();
  EXPECT_THAT(urls(get(kApis, kSlices, "s")),
              ElementsAre("https://vw-a/services/apiexport/ws1/widgets"));
  EXPECT_EQ(proxy.slices.census().endpoints.at("direct"), 1U);
  EXPECT_EQ(proxy.slices.census().not_ready.at("NoConsumers"), 0U);
  world_.unbound = {"a"};
  proxy.slices.export_changed("", "widgets");
  settle();
  EXPECT_THAT(urls(get(kApis, kSlices, "s")), IsEmpty());
  EXPECT_EQ(proxy.slices.stats().writes - writes, 2U);
}

TEST_F(DefaultSlices, WhenThePathToAnExportAppears_SlicesThatNameItAreLookedAt) {
  world_.record.skip_default_slice = true;
  Replica& proxy = start();
  create(kApis, kSlices,
         parse(R"({"apiVersion":"apis.kcp.io/v1alpha1","kind":"APIExportEndpointSlice",
                   "metadata":{"name":"s"},
                   "spec":{"export":{"path":"root:org:team","name":"widgets"}}})"));
  settle();
  EXPECT_EQ(condition(get(kApis, kSlices, "s"), "APIExportValid"), "False APIExportNotFound");
  world_.record.cluster = "root:org:team";
  proxy.slices.path_changed("other");
  settle();
  EXPECT_EQ(condition(get(kApis, kSlices, "s"), "APIExportValid"), "False APIExportNotFound");
  proxy.slices.path_changed("team");
  settle();
  EXPECT_EQ(condition(get(kApis, kSlices, "s"), "APIExportValid"), "True ");
  world_.record.cluster = "elsewhere";
  proxy.slices.path_changed("team");
  settle();
  EXPECT_EQ(condition(get(kApis, kSlices, "s"), "APIExportValid"), "False APIExportNotFound");
  world_.record.cluster = "root:org:team";
  proxy.slices.path_changed("");
  run_until([&] { return condition(get(kApis, kSlices, "s"), "APIExportValid") == "True "; });
}

}  // namespace
}  // namespace kintsugi::server::testing_stack
