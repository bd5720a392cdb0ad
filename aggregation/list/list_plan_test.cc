#include "aggregation/list/list_plan.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace kintsugi::aggregation {
namespace {

using Kind = ListStep::Kind;

const std::vector<std::size_t> kSlots{0, 1, 2};

MergeQuery query_of(std::string_view query, bool watch = false) {
  const auto parsed = parse_merge_query(krm::parse_request_info(
      "GET", "/api/v1/configmaps?" + std::string(watch ? "watch=1&" : "") + std::string(query)));
  EXPECT_TRUE(parsed) << query;
  return parsed ? *parsed : MergeQuery();
}

Error error_of(std::string_view query) {
  auto parsed =
      parse_merge_query(krm::parse_request_info("GET", "/api/v1/configmaps?" + std::string(query)));
  return parsed ? Error(Errc::kOk) : std::move(parsed.error());
}

DecodedVersion version(VersionClass kind, Components components = {}) {
  DecodedVersion out;
  out.kind = kind;
  out.components = std::move(components);
  return out;
}

TEST(MergeQuery, WhenCombinationsAreForbidden_T07_T30_T48_SaysWhich) {
  struct Case {
    std::string_view query;
    Errc code;
    std::string_view field;
  };
  for (const Case& each : {
           Case{"limit=abc", Errc::kBadRequest, ""},                                    // V01
           Case{"limit=9223372036854775808", Errc::kBadRequest, ""},                    // V01
           Case{"timeoutSeconds=x", Errc::kBadRequest, ""},                             // V01
           Case{"limit=", Errc::kBadRequest, ""},                                       // V01
           Case{"limit=%2B-5", Errc::kBadRequest, ""},                                  // V01
           Case{"resourceVersionMatch=Exact", Errc::kInvalid, "resourceVersionMatch"},  // V03
           Case{"resourceVersion=1&continue=x&resourceVersionMatch=Exact", Errc::kInvalid,
                "resourceVersionMatch"},  // V04
           Case{"resourceVersion=1&resourceVersionMatch=foo", Errc::kInvalid,
                "resourceVersionMatch"},  // V05
           Case{"resourceVersion=0&resourceVersionMatch=Exact", Errc::kInvalid,
                "resourceVersionMatch"},                                                    // V06
           Case{"sendInitialEvents=false", Errc::kInvalid, "sendInitialEvents"},            // V07
           Case{"watch=1&sendInitialEvents=true", Errc::kInvalid, "resourceVersionMatch"},  // V08
           Case{"watch=1&sendInitialEvents=true&resourceVersionMatch=Exact", Errc::kInvalid,
                "resourceVersionMatch"},  // V08 V10
           Case{"watch=1&resourceVersionMatch=NotOlderThan", Errc::kInvalid,
                "resourceVersionMatch"},                             // V09
           Case{"labelSelector=a%20in%20(", Errc::kBadRequest, ""},  // V11
           // Selectors are decoded before combinations are looked at.
           Case{"labelSelector=a%20in%20(&resourceVersionMatch=foo", Errc::kBadRequest, ""},
           Case{"watch=1&fieldSelector=a&sendInitialEvents=true", Errc::kBadRequest, ""},
           Case{"continue=x&resourceVersion=5", Errc::kBadRequest, ""},  // V13
       }) {
    const Error error = error_of(each.query);
    EXPECT_EQ(error.code(), each.code) << each.query;
    if (!each.field.empty()) {
      ASSERT_FALSE(error.detail().causes.empty()) << each.query;
      EXPECT_EQ(error.detail().causes[0].field, each.field);
      EXPECT_EQ(error.detail().kind, "ListOptions");
    }
  }
  EXPECT_EQ(query_of("limit=-1").limit, 0);  // V02
  EXPECT_EQ(query_of("limit=%2B5&limit=x").limit, 5);
  EXPECT_EQ(query_of("continue=x&resourceVersion=0").continue_token, "x");
  EXPECT_EQ(query_of("limit=5&continue=x", true).limit, 5);  // V17: ignored by watches
  EXPECT_EQ(query_of("timeout=6m24s&labelSelector=a&timeoutSeconds=384", true).passed_on,
            "&labelSelector=a");  // AGG-901: clients send another one each time
  EXPECT_EQ(query_of("timeout=5s").passed_on, "&timeout=5s");
}

TEST(MergeQuery, WhenAMatchIsNotKnown_V05_TheCauseHasItsValue) {
  for (const std::string_view query : {"resourceVersion=1&resourceVersionMatch=foo",
                                       "watch=1&sendInitialEvents=true&resourceVersionMatch=foo"}) {
    const Error error = error_of(query);
    const auto& causes = error.detail().causes;
    ASSERT_FALSE(causes.empty());
    const auto found = std::find_if(causes.begin(), causes.end(), [](const Cause& cause) {
      return cause.reason == "FieldValueNotSupported";
    });
    ASSERT_NE(found, causes.end()) << query;
    EXPECT_NE(found->message.find("\"foo\""), std::string::npos) << found->message;
    EXPECT_NE(found->message.find("\"NotOlderThan\""), std::string::npos) << found->message;
  }
}

TEST(MergeQuery, WhenPassedOn_T03_T102_OnlyForeignParametersAreLeft) {
  const MergeQuery query = query_of(
      "labelSelector=app%3Dweb%2Ctier%21%3Ddb&limit=5&resourceVersion=0&shardSelector=x&pretty=1");
  EXPECT_EQ(query.passed_on, "&labelSelector=app%3Dweb%2Ctier%21%3Ddb&shardSelector=x&pretty=1");
  EXPECT_EQ(query.shard_selector, "x");
}

constexpr std::string_view kTypedClient = "application/vnd.kubernetes.protobuf,application/json";
constexpr std::string_view kKubectl =
    "application/json;as=Table;v=v1;g=meta.k8s.io,application/json";

TEST(MergeableAccept, WhenTypesCannotBeMerged_T16_NothingIsLeft) {
  for (const bool protobuf : {false, true}) {
    EXPECT_EQ(mergeable_accept("", protobuf), "application/json");
    EXPECT_EQ(mergeable_accept("*/*", protobuf), "application/json");
    EXPECT_EQ(mergeable_accept(kKubectl, protobuf),
              "application/json;as=Table;v=v1;g=meta.k8s.io, application/json");
    EXPECT_EQ(mergeable_accept("text/html, */*;q=0.8", protobuf), "application/json;q=0.8");
    EXPECT_FALSE(mergeable_accept("image/png", protobuf));
    EXPECT_FALSE(mergeable_accept("application/cbor", protobuf));
  }
}

TEST(MergeableAccept, WhenTheClientPrefersProtobuf_T10_SoDoesTheQuestion) {
  EXPECT_EQ(mergeable_accept(kTypedClient, false), "application/json");
  EXPECT_EQ(mergeable_accept(kTypedClient, true),
            "application/vnd.kubernetes.protobuf, application/json");
  EXPECT_EQ(mergeable_accept("application/json, Application/vnd.kubernetes.protobuf", true),
            "application/json, Application/vnd.kubernetes.protobuf");
  EXPECT_FALSE(mergeable_accept("application/vnd.kubernetes.protobuf", false));
}

TEST(MergeableAccept, WhenShardsDiffer_T08_T19_LessIsAskedFor) {
  EXPECT_EQ(without_protobuf(kTypedClient), "application/json");
  EXPECT_EQ(without_protobuf("application/vnd.kubernetes.protobuf"), "");
  EXPECT_TRUE(allows_table(kKubectl));
  EXPECT_FALSE(allows_table(kTypedClient));
  EXPECT_EQ(without_tables(kKubectl), "application/json");
  EXPECT_EQ(without_tables("application/json;as=Table;v=v1;g=meta.k8s.io"), "");
}

TEST(ListPlan, WhenNothingIsAsked_T01_EveryShardIsRead) {
  const auto plan = plan_list(query_of(""), version(VersionClass::kUnset), kSlots);
  ASSERT_TRUE(plan);
  for (const ListStep& step : plan->steps) {
    EXPECT_EQ(step.kind, Kind::kRead);
    EXPECT_EQ(step.query, "");
  }
}

TEST(ListPlan, WhenPaged_T20_LaterShardsArePinned) {
  const auto plan =
      plan_list(query_of("limit=7&labelSelector=a"), version(VersionClass::kUnset), kSlots);
  ASSERT_TRUE(plan);
  EXPECT_EQ(plan->limit, 7);
  EXPECT_EQ(plan->steps[0].query, "?limit=7&labelSelector=a");
  EXPECT_EQ(plan->steps[1].kind, Kind::kPin);
  EXPECT_EQ(plan->steps[2].query, "?limit=1&labelSelector=a");
}

TEST(ListPlan, WhenVersionIsZero_LimitIsIgnored) {
  const auto plan =
      plan_list(query_of("limit=7&resourceVersion=0"), version(VersionClass::kZero), kSlots);
  ASSERT_TRUE(plan);
  EXPECT_EQ(plan->limit, 0);
  EXPECT_EQ(plan->steps[1].kind, Kind::kRead);
  EXPECT_EQ(plan->steps[1].query, "?resourceVersion=0");
}

TEST(ListPlan, WhenCursorComes_T05_T06_EachShardGetsItsComponent) {
  const DecodedVersion cursor = version(VersionClass::kCursor, {4711, 0, 982});
  const auto newer = plan_list(query_of("resourceVersion=1"), cursor, kSlots);
  ASSERT_TRUE(newer);
  EXPECT_EQ(newer->steps[0].query, "?resourceVersion=4711&resourceVersionMatch=NotOlderThan");
  EXPECT_EQ(newer->steps[1].query, "");
  const auto exact =
      plan_list(query_of("resourceVersion=1&resourceVersionMatch=Exact"), cursor, kSlots);
  ASSERT_TRUE(exact);
  EXPECT_EQ(exact->steps[0].query, "?resourceVersion=4711&resourceVersionMatch=Exact");
  EXPECT_EQ(exact->steps[1].kind, Kind::kSkip);
  const auto paged = plan_list(query_of("resourceVersion=1&limit=5"), cursor, kSlots);
  ASSERT_TRUE(paged);
  EXPECT_EQ(paged->steps[0].query, "?resourceVersion=4711&resourceVersionMatch=Exact&limit=5");
  EXPECT_EQ(paged->steps[2].kind, Kind::kLater);
  EXPECT_EQ(paged->steps[2].pin, 982U);
}

TEST(ListPlan, WhenVersionIsNative_T17_MostRecentOrExpired) {
  const DecodedVersion native = version(VersionClass::kNative);
  ASSERT_TRUE(plan_list(query_of("resourceVersion=5"), native, kSlots));
  EXPECT_EQ(plan_list(query_of("resourceVersion=5"), native, kSlots)->steps[0].query, "");
  for (const char* query :
       {"resourceVersion=5&resourceVersionMatch=Exact", "resourceVersion=5&limit=3"}) {
    const auto plan = plan_list(query_of(query), native, kSlots);
    ASSERT_FALSE(plan) << query;
    EXPECT_EQ(plan.error().code(), Errc::kExpired);
  }
}

TEST(ListPlan, WhenVersionIsMalformedOrUnknown_T57_IsRefused) {
  EXPECT_EQ(plan_list(query_of("resourceVersion=x"), version(VersionClass::kMalformed), kSlots)
                .error()
                .code(),
            Errc::kBadRequest);
  EXPECT_EQ(plan_list(query_of("resourceVersion=1"), version(VersionClass::kUnknown), kSlots)
                .error()
                .code(),
            Errc::kExpired);
  DecodedVersion departed = version(VersionClass::kCursor, {1, 2, 3});
  departed.departed = {"gone"};
  EXPECT_EQ(plan_list(query_of("resourceVersion=1"), departed, kSlots).error().code(),
            Errc::kExpired);
}

TEST(ListPlan, WhenPageContinues_T20_T100_TheMemberIsAskedWithItsToken) {
  MergedContinue token;
  token.slot = 1;
  token.pins = {4711, 15, 982};
  token.member_token = "MEMBERTOKEN";
  const ListPlan plan = plan_page(query_of("limit=4&continue=x"), token, kSlots);
  EXPECT_EQ(plan.first, 1U);
  EXPECT_EQ(plan.steps[0].kind, Kind::kSkip);
  EXPECT_EQ(plan.steps[1].query, "?continue=MEMBERTOKEN&limit=4");
  EXPECT_EQ(plan.steps[2].kind, Kind::kLater);
  token.member_token.clear();
  EXPECT_EQ(plan_page(query_of("limit=4&continue=x"), token, kSlots).steps[1].query,
            "?resourceVersion=15&resourceVersionMatch=Exact&limit=4");
}

}  // namespace
}  // namespace kintsugi::aggregation
