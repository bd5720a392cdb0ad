// Who may name which export in a slice, asked at a shard that does what the test says.
#include "proxy/gates/bind_check.h"

#include <gtest/gtest.h>

#include "krm/json.h"
#include "proxy/testing/rig.h"

namespace kintsugi::proxy {
namespace {

using testing::Exchange;
using testing::FakeShard;
using testing::Rig;

constexpr const char* kNoPermission =
    "apiexportendpointslices.apis.kcp.io \"s\" is forbidden: unable to create "
    "APIExportEndpointSlice: no permission to bind to export root:one:someExport";

/// The rig's shard with an export in root:one and answers to reviews.
struct Bind : ::testing::Test {
  Bind() {
    rig.shard.complete = [this](Exchange& exchange) {
      if (exchange.head.method == "GET") {
        FakeShard::reply(exchange, export_status, "{}");
      } else {
        FakeShard::reply(exchange, review_status, review);
      }
    };
    question.user.name = "alice";
    question.user.groups = {"team"};
    question.cluster = "root";
    question.path = "root:one";
    question.name = "someExport";
    question.slice_name = "s";
  }
  /// "ok", or the error's code, retry and message.
  std::string ask() {
    std::string said;
    check.check(question, [&](Expected<void> result) {
      if (result) {
        said = "ok";
        return;
      }
      const int retry = result.error().detail().retry_after_seconds;
      said = result.error().code() == Errc::kForbidden     ? ""
             : result.error().code() == Errc::kUnavailable ? "503 "
                                                           : "other ";
      said += (retry > 0 ? "later: " : "") + std::string(result.error().message());
    });
    EXPECT_TRUE(rig.until([&] { return !said.empty(); }));
    return said;
  }
  [[nodiscard]] std::string last_target() const { return rig.shard.exchanges.back().head.target; }

  Rig rig;
  bool known = true;
  FindReviewTarget find = [this](std::string_view cluster) -> Expected<ReviewTarget> {
    const auto fact = rig.view->current().cluster(cluster);
    shards::ShardClient* client = fact && known ? rig.pool->find(fact->owner) : nullptr;
    if (client == nullptr) {
      return fail(Errc::kUnavailable, "down");
    }
    return ReviewTarget{client->upstream(), "/clusters/" + std::string(cluster)};
  };
  ShardReviews reviews{rig.loop, find, {.allow_ttl = {}, .deny_ttl = {}}};
  BindCheck check{rig.loop, rig.view, find, reviews};
  BindCheck::Question question;
  int export_status = 200, review_status = 201;
  std::string review = R"({"status":{"allowed":true}})";
};

TEST_F(Bind, TP041_WhenTheShardAllows_AsksForBindInTheExportsCluster) {
  EXPECT_EQ(ask(), "ok");
  const Exchange& asked = rig.shard.exchanges.back();
  EXPECT_EQ(asked.head.target, "/clusters/c1/apis/authorization.k8s.io/v1/subjectaccessreviews");
  EXPECT_EQ(asked.head.headers.get("x-kcp-internal-deep-subjectaccessreview"), "true");
  const auto body = krm::Json::parse(asked.body);
  ASSERT_TRUE(body);
  EXPECT_EQ(body->find("spec")->dump(),
            R"({"groups":["team"],"resourceAttributes":{"group":"apis.kcp.io","name":"someExport",)"
            R"("resource":"apiexports","verb":"bind","version":"v1alpha1"},"user":"alice"})");
}

TEST_F(Bind, TP042_WhenNoOpinionDeniedErrorOrUnknown_OneText) {
  review = R"({"status":{"allowed":false}})";
  EXPECT_EQ(ask(), kNoPermission) << "no opinion";
  review = R"({"status":{"allowed":false,"denied":true,"reason":"because"}})";
  EXPECT_EQ(ask(), kNoPermission) << "denied";
  review = R"({"status":{"allowed":false,"evaluationError":"broken"}})";
  EXPECT_EQ(ask(), kNoPermission) << "review error";
  for (const int status : {400, 403, 404, 500}) {
    review_status = status;
    EXPECT_EQ(ask(), kNoPermission) << "review answered with " << status;
  }
  review_status = 201;
  review = "no JSON";
  EXPECT_EQ(ask(), kNoPermission);
  review = R"({"status":{"allowed":true}})";
  export_status = 404;
  EXPECT_EQ(ask(), kNoPermission) << "unknown export";
  export_status = 200;
  question.path = "root:none";
  EXPECT_EQ(ask(),
            "apiexportendpointslices.apis.kcp.io \"s\" is forbidden: unable to create "
            "APIExportEndpointSlice: no permission to bind to export root:none:someExport")
      << "unknown cluster";
}

TEST_F(Bind, TP044_WithoutAPath_TheExportOfTheOwnClusterMayBeMissing) {
  question.path.clear();
  review = R"({"status":{"allowed":false}})";
  export_status = 404;
  EXPECT_EQ(ask(), "ok");
  export_status = 403;
  EXPECT_EQ(ask(),
            "apiexportendpointslices.apis.kcp.io \"s\" is forbidden: unable to create "
            "APIExportEndpointSlice: no permission to bind to export someExport")
      << "only what is known to be missing needs no right";
  export_status = 200;
  EXPECT_NE(ask(), "ok");
}

TEST_F(Bind, TP042_ANameThatNoExportHas_IsAnUnknownOne) {
  const std::size_t before = rig.shard.exchanges.size();
  for (const std::string_view name :
       {"a/b", "..", "a\nb", "a b", "\xc3\xa4", "../../../../api/v1/secrets", "a%2Fb"}) {
    question.name = name;
    question.path = "root:org";
    EXPECT_EQ(ask(),
              "apiexportendpointslices.apis.kcp.io \"s\" is forbidden: unable to create "
              "APIExportEndpointSlice: no permission to bind to export root:org:" +
                  question.name);
    question.path.clear();
    EXPECT_EQ(ask(), "ok");
  }
  EXPECT_EQ(rig.shard.exchanges.size(), before) << "no shard is asked";
}

TEST_F(Bind, TP121_WhileTheShardCannotBeAsked_LaterInsteadOfForbidden) {
  const std::string later = "503 later: the export cannot be looked up now";
  for (const int status : {429, 503}) {
    review_status = status;
    EXPECT_EQ(ask(), later) << status;
  }
  review_status = 201;
  for (const int status : {429, 500, 503}) {
    export_status = status;
    EXPECT_EQ(ask(), later) << status;
  }
  export_status = 200;
  known = false;
  EXPECT_EQ(ask(), later);
  known = true;
  rig.stop_shard();
  EXPECT_EQ(ask(), later);
}

TEST_F(Bind, WhenTheNameIsNoName_ItStaysOneSegmentOfThePath) {
  export_status = 404;
  question.name = "secrets?x=1";
  EXPECT_NE(ask(), "ok");
  EXPECT_EQ(last_target(), "/clusters/c1/apis/apis.kcp.io/v1alpha2/apiexports/secrets%3Fx%3D1");
}

TEST_F(Bind, WhenTheNameHidesAPath_SE055_NothingIsAsked) {
  for (const char* name : {"../secrets?x=1\r\ny/status", "a/../../secrets", "..", "a\r\nb"}) {
    question.name = name;
    const std::size_t before = rig.shard.exchanges.size();
    EXPECT_NE(ask(), "ok") << name;
    EXPECT_EQ(rig.shard.exchanges.size(), before) << name;
  }
}

}  // namespace
}  // namespace kintsugi::proxy
