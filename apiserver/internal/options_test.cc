#include "apiserver/internal/options.h"

#include <gtest/gtest.h>

#include "apiserver/internal/continue_token.h"
#include "apiserver/internal/media.h"
#include "base/strings.h"

namespace kintsugi::apiserver::internal {
namespace {

std::string list_error(std::string_view query, bool watch = false) {
  const Expected<ListOptions> options = parse_list_options(krm::Query(query), watch);
  return options ? "" : std::string(options.error().message());
}

TEST(ListOptions, WhenAM267To274AreBroken_SaysSoInKubernetesWords) {
  const std::string head = "ListOptions.meta.k8s.io \"\" is invalid: ";
  EXPECT_EQ(list_error("resourceVersionMatch=Exact"),
            head +
                "resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden unless "
                "resourceVersion is provided");
  EXPECT_EQ(list_error("resourceVersionMatch=Exact&resourceVersion=0"),
            head +
                "resourceVersionMatch: Forbidden: resourceVersionMatch \"exact\" is forbidden "
                "for resourceVersion \"0\"");
  EXPECT_EQ(list_error("resourceVersionMatch=Foo&resourceVersion=1"),
            head +
                "resourceVersionMatch: Unsupported value: \"Foo\": supported values: \"Exact\", "
                "\"NotOlderThan\", \"\"");
  EXPECT_EQ(list_error("resourceVersionMatch=Exact&continue=x"),
            head +
                "[resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden unless "
                "resourceVersion is provided, resourceVersionMatch: Forbidden: "
                "resourceVersionMatch is forbidden when continue is provided]");
  EXPECT_EQ(list_error("sendInitialEvents=true"),
            head + "sendInitialEvents: Forbidden: sendInitialEvents is forbidden for list");
  EXPECT_EQ(list_error("limit=abc"), "strconv.ParseInt: parsing \"abc\": invalid syntax");
  EXPECT_EQ(list_error("timeoutSeconds=abc"), "strconv.ParseInt: parsing \"abc\": invalid syntax");
  EXPECT_TRUE(
      list_error("resourceVersion=abc")
          .starts_with("invalid resource version: resourceVersion: Invalid value: \"abc\""));
  EXPECT_TRUE(list_error("continue=x&resourceVersion=5")
                  .starts_with("invalid continue token: continue key is not valid: "));
  const std::string token = ContinueToken{1, "a"}.encode(keys_of_process(), "");
  EXPECT_EQ(list_error("resourceVersion=5&continue=" + token),
            "specifying resource version is not allowed when using continue");
  EXPECT_EQ(list_error("resourceVersion=0&continue=" + token), "");
  EXPECT_EQ(list_error("limit="), "strconv.ParseInt: parsing \"\": invalid syntax");
  EXPECT_EQ(parse_list_options(krm::Query("limit=-1"), false)->limit, 0);
}

TEST(ListOptions, WhenAM288To298AreBroken_RefusesTheWatch) {
  const std::string head = "ListOptions.meta.k8s.io \"\" is invalid: resourceVersionMatch: ";
  EXPECT_TRUE(
      list_error("resourceVersion=abc", true).starts_with("resourceVersion: Invalid value"));
  EXPECT_EQ(list_error("resourceVersionMatch=NotOlderThan", true),
            head +
                "Forbidden: resourceVersionMatch is forbidden for watch unless "
                "sendInitialEvents is provided");
  EXPECT_EQ(list_error("sendInitialEvents=true", true),
            head +
                "Forbidden: sendInitialEvents requires setting resourceVersionMatch to "
                "NotOlderThan");
  EXPECT_EQ(list_error("continue=abc", true),
            head + "Forbidden: resourceVersionMatch is forbidden when continue is provided");
  EXPECT_EQ(list_error("sendInitialEvents=true&resourceVersionMatch=Exact&resourceVersion=1", true),
            "ListOptions.meta.k8s.io \"\" is invalid: [resourceVersionMatch: Forbidden: "
            "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan, "
            "resourceVersionMatch: Unsupported value: \"Exact\": supported values: "
            "\"NotOlderThan\"]");
}

TEST(WriteOptions, WhenAM152To154AreBroken_IsInvalid) {
  const auto error = [](std::string_view query) {
    const auto options = parse_write_options(krm::Query(query), "UpdateOptions", false);
    return options ? std::string() : std::string(options.error().message());
  };
  const std::string head = "UpdateOptions.meta.k8s.io \"\" is invalid: ";
  EXPECT_EQ(error("fieldValidation=Foo"),
            head +
                "fieldValidation: Unsupported value: \"Foo\": supported values: \"\", "
                "\"Ignore\", \"Strict\", \"Warn\"");
  EXPECT_EQ(error("dryRun=Foo"),
            head + "dryRun: Unsupported value: [\"Foo\"]: supported values: \"All\"");
  EXPECT_EQ(error("fieldManager=" + std::string(129, 'm')),
            head + "fieldManager: Too long: may not be more than 128 bytes");
  EXPECT_EQ(error("fieldManager=a%01b"),
            head +
                "fieldManager: Invalid value: \"a\\x01b\": invalid character U+0001 (at "
                "position 1)");
  EXPECT_TRUE(parse_write_options(krm::Query("dryRun=All"), "UpdateOptions", false)->dry_run);
}

TEST(DeleteOptions, WhenAM187To190AreBroken_IsRefused) {
  const auto error = [](std::string_view query) {
    const auto options = parse_delete_options(krm::Query(query), nullptr);
    return options ? std::string() : std::string(options.error().message());
  };
  EXPECT_EQ(error("propagationPolicy=Foo"),
            "DeleteOptions.meta.k8s.io \"\" is invalid: propagationPolicy: Unsupported value: "
            "\"Foo\": supported values: \"Foreground\", \"Background\", \"Orphan\", \"nil\"");
  EXPECT_EQ(error("propagationPolicy=Foreground&orphanDependents=true"),
            "DeleteOptions.meta.k8s.io \"\" is invalid: propagationPolicy: Invalid value: "
            "\"Foreground\": orphanDependents and deletionPropagation cannot be both set");
  EXPECT_EQ(error("gracePeriodSeconds=abc"), "strconv.ParseInt: parsing \"abc\": invalid syntax");
  EXPECT_EQ(error("gracePeriodSeconds=-7"), "");
  const krm::Json foreign = krm::Json::object({{"kind", "Foo"}, {"apiVersion", "v1"}});
  const auto refused = parse_delete_options(krm::Query(""), &foreign);
  ASSERT_FALSE(refused);
  EXPECT_TRUE(
      refused.error().message().starts_with("no kind \"Foo\" is registered for version \"v1\""));
}

TEST(Timeout, WhenAM064IsAsked_IsAtMostAMinute) {
  EXPECT_EQ(*parse_timeout(krm::Query("timeout=2s")), Duration(seconds(2)));
  EXPECT_EQ(*parse_timeout(krm::Query("timeout=0s")), Duration(seconds(60)));
  EXPECT_EQ(*parse_timeout(krm::Query("timeout=2h")), Duration(seconds(60)));
  const auto bad = parse_timeout(krm::Query("timeout=7"));
  ASSERT_FALSE(bad);
  EXPECT_TRUE(bad.error().message().starts_with("invalid timeout specified in the request URL - "));
}

TEST(ContinueToken, WhenEncodedAndDecoded_IsTheSame) {
  for (const std::int64_t revision : {std::int64_t{517}, std::int64_t{-1}, std::int64_t{1} << 60}) {
    for (const std::int64_t following : {-1, 0, 42}) {
      const ContinueToken token{revision, std::string("lc/t1/b\0", 8), following};
      const auto back =
          ContinueToken::decode(token.encode(keys_of_process(), "here"), keys_of_process(), "here");
      ASSERT_TRUE(back);
      EXPECT_EQ(back->revision, revision);
      EXPECT_EQ(back->start, token.start);
      EXPECT_EQ(back->following, following);
    }
  }
}

TEST(ContinueToken, WhenAM278TokensCome_AreBadRequests) {
  const auto& keys = keys_of_process();
  const std::string token = ContinueToken{1, "a"}.encode(keys, "here");
  for (const std::string& text :
       {std::string("abc"), std::string("!"), base64url_encode("null"), base64url_encode("{}"),
        base64url_encode(R"({"v":"meta.k8s.io/v1","rv":1,"start":"lc/t1/a"})"),
        ContinueToken{0, "a"}.encode(keys, "here"), ContinueToken{-2, "a"}.encode(keys, "here"),
        ContinueToken{1, ""}.encode(keys, "here"), ContinueToken{1, "a"}.encode(keys, "there"),
        token.substr(1), token.substr(0, token.size() - 1), token + "A"}) {
    const Expected<ContinueToken> read = ContinueToken::decode(text, keys, "here");
    ASSERT_FALSE(read) << text;
    EXPECT_EQ(read.error().code(), Errc::kBadRequest);
    EXPECT_TRUE(
        read.error().message().starts_with("invalid continue token: continue key is not valid: "));
  }
}

TEST(ContinueToken, SE166_WhenItsKeyIsGone_IsExpired) {
  const auth::TokenKeys before = {{7, Secret::copy_of("a secret that is not used any more")}};
  const std::string token = ContinueToken{1, "a"}.encode(before, "here");
  const auto read = ContinueToken::decode(token, keys_of_process(), "here");
  ASSERT_FALSE(read);
  EXPECT_EQ(read.error().code(), Errc::kExpired);
}

TEST(Accept, WhenAM076To090AreSent_PicksTheForm) {
  const Offer builtin{true, true, true};
  const auto pick = [&](std::string_view header) {
    return negotiate(parse_accept(header), builtin);
  };
  for (const char* json :
       {"", "*/*", "application/json", "application/json;charset=utf-8", "application/foo, */*",
        "text/html, application/json;q=0.5", "application/yaml;q=0, application/json"}) {
    ASSERT_TRUE(pick(json)) << json;
    EXPECT_EQ(pick(json)->format, Format::kJson) << json;
  }
  EXPECT_EQ(pick("application/yaml, application/json")->format, Format::kYaml);
  EXPECT_EQ(pick("application/json;q=0.1, application/yaml;q=0.9")->format, Format::kYaml);
  EXPECT_EQ(pick("application/vnd.kubernetes.protobuf")->format, Format::kProtobuf);
  EXPECT_EQ(pick("application/vnd.kubernetes.protobuf,application/json")->format,
            Format::kProtobuf);
  EXPECT_EQ(pick("application/json,application/vnd.kubernetes.protobuf")->format, Format::kJson);
  const auto metadata = pick(
      "application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;v=v1;g=meta.k8s.io,"
      "application/json");
  ASSERT_TRUE(metadata);
  EXPECT_EQ(metadata->format, Format::kProtobuf);
  EXPECT_EQ(metadata->shape, Shape::kPartial);
  for (const char* none :
       {"text/plain", "application/cbor", "image/*", "application/json;as=Table;v=v9;g=meta.k8s.io",
        "application/json;as=Foo;v=v1;g=meta.k8s.io",
        "application/vnd.kubernetes.protobuf;as=Table;v=v1;g=meta.k8s.io"}) {
    EXPECT_FALSE(pick(none)) << none;
  }
  const auto table = pick(
      "application/json;as=Table;v=v1;g=meta.k8s.io,"
      "application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json");
  ASSERT_TRUE(table);
  EXPECT_EQ(table->shape, Shape::kTable);
  EXPECT_FALSE(table->beta);
}

TEST(Accept, WhenAM096IsAsked_KnowsWhoWantsPretty) {
  EXPECT_TRUE(wants_pretty("true", {}, ""));
  EXPECT_FALSE(wants_pretty("0", {}, "curl/8"));
  EXPECT_FALSE(wants_pretty("x", {}, ""));
  EXPECT_TRUE(wants_pretty(std::nullopt, {}, "curl/8"));
  EXPECT_TRUE(wants_pretty(std::nullopt, parse_accept("application/json;pretty=1"), ""));
  EXPECT_FALSE(wants_pretty(std::nullopt, {}, "kubectl/v1"));
}

}  // namespace
}  // namespace kintsugi::apiserver::internal
