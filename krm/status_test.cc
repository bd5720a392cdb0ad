#include "krm/status.h"

#include <gtest/gtest.h>

namespace kintsugi::krm {
namespace {

std::string message(const Error& error) { return std::string(error.message()); }

TEST(Status, WhenObjectIsAbsent_IsNotFoundAM001) {
  EXPECT_EQ(
      to_status(not_found("", "configmaps", "nope")).dump(),
      R"({"apiVersion":"v1","code":404,"details":{"kind":"configmaps","name":"nope"},"kind":"Status","message":"configmaps \"nope\" not found","metadata":{},"reason":"NotFound","status":"Failure"})");
  const Json status = to_status(not_found("ex.io", "widgets", "w"));
  EXPECT_EQ(status.text({"message"}), "widgets.ex.io \"w\" not found");
  EXPECT_EQ(status.text({"details", "group"}), "ex.io");
}

TEST(Status, WhenPathIsUnknown_HasEmptyDetailsAM002) {
  const Json status = to_status(path_not_found());
  EXPECT_EQ(status.text({"message"}), "the server could not find the requested resource");
  EXPECT_EQ(status.at({"details"})->dump(), "{}");
}

TEST(Status, WhenNameExistsOrChanged_IsConflictAM004AM007) {
  EXPECT_EQ(message(already_exists("", "configmaps", "a")), "configmaps \"a\" already exists");
  EXPECT_EQ(http_status(already_exists("", "configmaps", "a")), 409);
  EXPECT_EQ(message(modified("", "configmaps", "a")),
            "Operation cannot be fulfilled on configmaps \"a\": the object has been modified; "
            "please apply your changes to the latest version and try again");
  EXPECT_EQ(to_status(modified("", "configmaps", "a")).text({"reason"}), "Conflict");
}

TEST(Status, WhenInvalid_TextFollowsRule5AM011) {
  const Error one =
      invalid("ex.io", "Widget", "w", {field_invalid("spec.size", 40, "should be less")});
  EXPECT_EQ(message(one),
            "Widget.ex.io \"w\" is invalid: spec.size: Invalid value: 40: should be less");
  const Cause required = field_required("spec.a[2].b");
  const Error several =
      invalid("", "ConfigMap", "", {required, field_forbidden("", "no"), required});
  EXPECT_EQ(message(several),
            "ConfigMap \"\" is invalid: [spec.a[2].b: Required value, <nil>: Forbidden: no]");
  const Json status = to_status(several);
  EXPECT_EQ(status.at({"code"})->as_integer(), 422);
  EXPECT_EQ(status.at({"details", "causes"})->items()[0].dump(),
            R"({"field":"spec.a[2].b","message":"Required value","reason":"FieldValueRequired"})");
  EXPECT_EQ(message(invalid("", "A", "b", {})), "A \"b\" is invalid");
}

TEST(Status, WhenPatchDoesNotApply_IsBareInvalidAM012) {
  const Json status = to_status(invalid_patch());
  EXPECT_EQ(status.text({"message"}),
            "the server rejected our request due to an error in our request");
  EXPECT_EQ(status.at({"details"})->dump(), "{}");
  EXPECT_EQ(status.text({"reason"}), "Invalid");
}

TEST(Status, WhenForbidden_TextNamesWhatIsKnownAM014AM018AM020) {
  EXPECT_EQ(message(forbidden("", "configmaps", "", "User \"alice\" cannot list")),
            "configmaps is forbidden: User \"alice\" cannot list");
  EXPECT_EQ(message(forbidden("ex.io", "widgets", "ww", "r")),
            "widgets.ex.io \"ww\" is forbidden: r");
  EXPECT_EQ(message(forbidden("", "", "", "User \"alice\" cannot get path \"/metrics\"")),
            "forbidden: User \"alice\" cannot get path \"/metrics\"");
  EXPECT_EQ(to_status(forbidden("", "", "", "r")).at({"details"})->dump(), "{}");
}

TEST(Status, WhenMethodIsNotServed_Is405AM021AM022) {
  EXPECT_EQ(message(method_not_allowed()),
            "the server does not allow this method on the requested resource");
  EXPECT_EQ(message(wildcard_not_allowed("get", "namespaces")),
            "get is not supported on resources of kind \"namespaces\" in the `*` logical cluster");
  EXPECT_EQ(http_status(method_not_allowed()), 405);
}

TEST(Status, WhenFault_CauseIsGivenAM032) {
  const Json status = to_status(internal("boom"));
  EXPECT_EQ(status.text({"message"}), "Internal error occurred: boom");
  EXPECT_EQ(status.at({"details"})->dump(), R"({"causes":[{"message":"boom"}]})");
  EXPECT_EQ(to_status(Error(Errc::kCorrupt, "page 7")).text({"message"}),
            "Internal error occurred: page 7");
  EXPECT_EQ(to_status(Error(Errc::kCorrupt, "page 7")).at({"details"})->dump(),
            R"({"causes":[{"message":"page 7"}]})");
}

TEST(Status, WhenHistoryIsGone_IsExpiredAM027AM028) {
  const Json status = to_status(Error(Errc::kCompacted));
  EXPECT_EQ(status.at({"code"})->as_integer(), 410);
  EXPECT_EQ(status.text({"reason"}), "Expired");
  EXPECT_EQ(status.text({"message"}), "The resourceVersion for the provided list is too old.");
  EXPECT_EQ(
      to_status(Error(Errc::kExpired, "too old resource version: 10 (517)")).text({"message"}),
      "too old resource version: 10 (517)");
}

TEST(Status, WhenRevisionIsAhead_IsTimeoutWithRetryAM029) {
  const Error error(Errc::kFutureRevision, "Too large resource version: 99999999, current: 387");
  const Json status = to_status(error);
  EXPECT_EQ(status.text({"message"}),
            "Timeout: Too large resource version: 99999999, current: 387");
  EXPECT_EQ(
      status.at({"details"})->dump(),
      R"({"causes":[{"message":"Too large resource version","reason":"ResourceVersionTooLarge"}],"retryAfterSeconds":1})");
  EXPECT_EQ(retry_after_seconds(error), 1);
}

TEST(Status, WhenDeadlinePasses_IsTimeoutAM030) {
  EXPECT_EQ(to_status(Error(Errc::kDeadline)).text({"message"}),
            "Timeout: request did not complete within the allotted timeout");
}

TEST(Status, WhenTransportFails_ClientMayRetryOnlyWhatWasNotSent) {
  for (const Errc code : {Errc::kRefused, Errc::kUnreachable, Errc::kOverloaded}) {
    EXPECT_EQ(http_status(Error(code)), 503);
    EXPECT_GT(retry_after_seconds(Error(code)), 0);
    EXPECT_EQ(to_status(Error(code)).text({"reason"}), "ServiceUnavailable");
  }
  EXPECT_EQ(http_status(Error(Errc::kReset)), 502);
  EXPECT_EQ(retry_after_seconds(Error(Errc::kReset)), 0);
  EXPECT_EQ(to_status(Error(Errc::kIo)).text({"reason"}), "ServerTimeout");
  EXPECT_EQ(to_status(Error(Errc::kFull)).at({"code"})->as_integer(), 500);
}

TEST(Status, WhenDetailOverrides_ItWins) {
  Error error = unavailable("later", 7);
  error.edit().http_status = 429;
  error.edit().continue_token = "abc";
  const Json status = to_status(error);
  EXPECT_EQ(status.at({"code"})->as_integer(), 429);
  EXPECT_EQ(status.text({"metadata", "continue"}), "abc");
  EXPECT_EQ(status.at({"details", "retryAfterSeconds"})->as_integer(), 7);
  EXPECT_EQ(to_status(unauthorized()).find("details"), nullptr);
  EXPECT_EQ(to_status(bad_request("x")).find("details"), nullptr);
}

TEST(Status, WhenAnyCodeIsGiven_StatusIsComplete) {
  for (int i = 1; i <= static_cast<int>(Errc::kConfig); ++i) {
    const Error error(static_cast<Errc>(i));
    const Json status = to_status(error);
    EXPECT_GE(http_status(error), 400) << error.to_string();
    EXPECT_FALSE(status.text({"message"}).empty()) << error.to_string();
    EXPECT_EQ(status.text({"status"}), "Failure");
  }
}

TEST(Causes, WhenMade_ReadLikeKubernetes) {
  EXPECT_EQ(field_required("a", "d").message, "Required value: d");
  EXPECT_EQ(field_invalid("a", "x\x01y", "d").message, "Invalid value: \"x\\x01y\": d");
  EXPECT_EQ(field_invalid("a", Json::array({1, "b"}), "").message, "Invalid value: [1,\"b\"]");
  EXPECT_EQ(field_not_supported("a", "Foo", {"A", "B"}).message,
            "Unsupported value: \"Foo\": supported values: \"A\", \"B\"");
  EXPECT_EQ(field_duplicate("a", Json::object({{"k", "a"}})).message,
            "Duplicate value: {\"k\":\"a\"}");
  EXPECT_EQ(field_too_long("a", 262144).message, "Too long: may not be more than 262144 bytes");
  EXPECT_EQ(field_too_long("a", 1).message, "Too long: may not be more than 1 byte");
  EXPECT_EQ(field_too_many("a", 2, 1).message, "Too many: 2: must have at most 1 item");
  EXPECT_EQ(field_too_many("a", 9, 8).message, "Too many: 9: must have at most 8 items");
  EXPECT_EQ(field_too_many("a", 4, 3).message, "Too many: 4: must have at most 3 items");
  EXPECT_EQ(field_type_invalid("spec.size", "integer", "x").message,
            "Invalid value: \"string\": spec.size in body must be of type integer: \"string\"");
}

TEST(BodyErrors, WhenMade_ReadLikeKubernetes) {
  EXPECT_EQ(
      message(decode_error("ConfigMap", "v1", "strict decoding error: x")),
      "ConfigMap in version \"v1\" cannot be handled as a ConfigMap: strict decoding error: x");
  EXPECT_EQ(message(unrecognized_error("ConfigMap", "c", "")),
            "the object provided is unrecognized (must be of type ConfigMap): c (<empty>)");
  EXPECT_EQ(message(unrecognized_error("ConfigMap", "c", "{a")),
            "the object provided is unrecognized (must be of type ConfigMap): c ({a)");
}

}  // namespace
}  // namespace kintsugi::krm
