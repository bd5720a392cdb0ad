#include "aggregation/reviewed_read.h"

#include <gtest/gtest.h>

#include <tuple>
#include <vector>

#include "aggregation/rights/permit.h"
#include "auth/access_review.h"

namespace kintsugi::aggregation {
namespace {

constexpr Right kYes = Right::kAllowed, kNo = Right::kDenied, kAway = Right::kUnavailable,
                kWait = Right::kUnknown;

TEST(ReviewedRead, WhenRightsDiffer_T90_StrictTakesAllAndPartialWhatItMay) {
  struct Case {
    std::vector<Right> rights;
    Right strict, partial;
    std::vector<std::size_t> left_out;
  };
  const std::vector<Case> cases = {
      {{kYes, kYes}, kYes, kYes, {}},
      {{kYes, kNo}, kNo, kYes, {1}},
      {{kNo, kYes, kNo}, kNo, kYes, {0, 2}},
      {{kNo, kNo}, kNo, kNo, {}},
      {{kYes, kAway}, kAway, kYes, {1}},  // never as if it were allowed
      {{kAway, kAway}, kAway, kAway, {}},
      {{kAway, kNo}, kNo, kAway, {}},
      {{kAway, kNo, kYes}, kNo, kYes, {0, 1}},
      {{kWait, kYes}, kWait, kWait, {}},
      {{kWait, kNo}, kNo, kWait, {}},
      {{kWait, kAway}, kWait, kWait, {}},
      {{}, kYes, kYes, {}},  // nobody is there to be read
  };
  for (std::size_t i = 0; i < cases.size(); ++i) {
    const Case& one = cases[i];
    const StartVerdict strict = judge_start(one.rights, false);
    const StartVerdict partial = judge_start(one.rights, true);
    EXPECT_EQ(strict.right, one.strict) << i;
    EXPECT_TRUE(strict.left_out.empty()) << i;
    EXPECT_EQ(partial.right, one.partial) << i;
    EXPECT_EQ(partial.left_out, one.left_out) << i;
    if (strict.right == kNo) {
      EXPECT_EQ(one.rights[strict.cause], kNo) << i;
    }
  }
}

TEST(ReviewedRead, WhenAPathIsWritten_T90_ThereIsOneFormOfIt) {
  const auto path_of = [](std::string_view target) {
    return canonical_path(krm::parse_request_info("GET", target));
  };
  for (const char* path :
       {"/api/v1/configmaps", "/api/v1/namespaces/t/configmaps", "/apis/apps/v1/deployments",
        "/apis/apps/v1/namespaces/t/deployments", "/apis/ex.test/v1/widgets:abc"}) {
    EXPECT_EQ(path_of(path), path);
  }
  for (const char* path :
       {"/api/v1/config%6Daps", "/api/v1/namespaces/%74/configmaps", "/api/v1/configmaps/",
        "/api/v1/namespaces/a%2Fb/configmaps", "/api//v1/configmaps"}) {
    EXPECT_NE(path_of(path), path);
  }
  for (const char* segment : {"", ".", "..", "a/b", "a%b", "a b", "a?b", "a#b", "\n", "\x80"}) {
    EXPECT_FALSE(is_plain_segment(segment)) << segment;
  }
  for (const char* segment : {"configmaps", "widgets:abc", "v1alpha1", "a.b", "a_b", "A"}) {
    EXPECT_TRUE(is_plain_segment(segment)) << segment;
  }
}

TEST(ReviewedRead, WhenParametersRepeat_T90_OnlyWhatIsReviewedIsAsked) {
  const auto info = krm::parse_request_info(
      "GET",
      "/api/v1/"
      "configmaps?watch=1&labelSelector=a%3Db&labelSelector=&fieldSelector=metadata.name%3Dx"
      "&fieldSelector=&unknown=1&includeObject=None&pretty=1&resourceVersion=7");
  const auto query = parse_merge_query(info);
  ASSERT_TRUE(query);
  EXPECT_EQ(reviewed_query(*query, info),
            "&labelSelector=a%3Db&fieldSelector=metadata.name%3Dx&includeObject=None&pretty=1");
}

TEST(AccessReview, WhenAsked_T103_ItSaysEverythingOfTheCaller) {
  auth::Attributes attributes;
  attributes.user = {"alice", "u-1", {"team", "system:authenticated"}, {{"key", {"a", "b"}}}};
  attributes.verb = "watch";
  attributes.group = "apps";
  attributes.version = "v1";
  attributes.resource = "deployments";
  attributes.ns = "t";
  attributes.name = "x";
  EXPECT_EQ(auth::access_review(attributes, {"app=web", "metadata.name=x"}).dump(),
            R"({"apiVersion":"authorization.k8s.io/v1","kind":"SubjectAccessReview","spec":{)"
            R"("extra":{"key":["a","b"]},"groups":["team","system:authenticated"],)"
            R"("resourceAttributes":{"fieldSelector":{"rawSelector":"metadata.name=x"},)"
            R"("group":"apps","labelSelector":{"rawSelector":"app=web"},"name":"x",)"
            R"("namespace":"t","resource":"deployments","verb":"watch","version":"v1"},)"
            R"("uid":"u-1","user":"alice"}})");
}

TEST(AccessReview, WhenAnswered_T103_OnlyAPlainYesAllows) {
  const auto answer = [](int status, std::string body) {
    net::FetchResponse response;
    response.status = status;
    response.body = std::move(body);
    return auth::read_decision(std::move(response));
  };
  EXPECT_TRUE(answer(201, R"({"status":{"allowed":true,"reason":"r"}})")->allowed);
  EXPECT_EQ(answer(201, R"({"status":{"allowed":true,"reason":"r"}})")->reason, "r");
  for (const char* body :
       {R"({"status":{"allowed":false}})", R"({"status":{"allowed":"true"}})", R"({"status":{}})",
        R"({"status":{"allowed":true,"denied":true}})", R"({"spec":{"allowed":true}})", "{}", "[]",
        R"({"status":{"allowed":1}})", "true"}) {
    const auto decision = answer(201, body);
    EXPECT_TRUE(decision && !decision->allowed) << body;
  }
  for (const int status : {200 + 2, 302, 400, 401, 403, 404, 429, 500, 503}) {
    EXPECT_FALSE(answer(status, R"({"status":{"allowed":true}})")) << status;
  }
  EXPECT_FALSE(answer(201, "<html>"));
  EXPECT_FALSE(auth::read_decision(fail(Errc::kDeadline, "late")));
}

}  // namespace
}  // namespace kintsugi::aggregation
