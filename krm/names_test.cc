#include "krm/names.h"

#include <gtest/gtest.h>

#include "krm/status.h"

namespace kintsugi::krm {
namespace {

constexpr char kSubdomain[] =
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or "
    "'.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used "
    "for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
constexpr char kNamePart[] =
    "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end "
    "with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for "
    "validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";

std::string faults(std::string_view meta, MetaRules rules = {}) {
  std::vector<Cause> causes;
  validate_object_meta(*Json::parse(meta), rules, "metadata", causes);
  const std::string all(invalid("", "ConfigMap", "a", std::move(causes)).message());
  const std::size_t colon = all.find(": ");
  return colon == std::string::npos ? "" : all.substr(colon + 2);
}

std::string labelled(const std::string& key, const std::string& value = "v") {
  return faults(
      Json::object({{"name", "a"}, {"namespace", "t"}, {"labels", Json::object({{key, value}})}})
          .dump());
}

TEST(Names, WhenSubdomainIsBroken_TextIsThatOfKubernetesAM162) {
  for (const char* bad : {".", "..", "Abc", "a%b", "a/b", "a_b", "-a", "a-", "a..b", ""}) {
    EXPECT_EQ(check_dns1123_subdomain(bad), (Messages{kSubdomain})) << bad;
  }
  EXPECT_EQ(check_dns1123_subdomain(std::string(254, 'x')),
            (Messages{"must be no more than 253 characters"}));
  EXPECT_TRUE(check_dns1123_subdomain(std::string(253, 'x')).empty());
  EXPECT_TRUE(check_dns1123_subdomain("ok.a-1").empty());
}

TEST(Names, WhenLabelIsBroken_DotsHaveTheirOwnTextAM163) {
  EXPECT_EQ(check_dns1123_label("a.b"), (Messages{"must not contain dots"}));
  EXPECT_EQ(check_dns1123_label(std::string(64, 'x')),
            (Messages{"must be no more than 63 characters"}));
  EXPECT_EQ(check_dns1123_label("A").at(0).substr(0, 41),
            "a lowercase RFC 1123 label must consist o");
  EXPECT_TRUE(check_dns1123_label("1ok").empty());
  EXPECT_FALSE(check_dns1035_label("1ok").empty());
  EXPECT_TRUE(check_dns1035_label("ok-1").empty());
}

TEST(Names, WhenPathSegmentIsBroken_SaysWhyAM164) {
  EXPECT_EQ(check_path_segment("a/b"), (Messages{"may not contain '/'"}));
  EXPECT_EQ(check_path_segment(".."), (Messages{"may not be '..'"}));
  EXPECT_EQ(check_path_segment("%"), (Messages{"may not contain '%'"}));
  EXPECT_TRUE(check_path_segment("Foo:bar baz").empty());
}

TEST(Names, WhenLabelKeysAreBroken_TextsAreTheRecordedOnesAM165) {
  const std::string lead = "metadata.labels: Invalid value: ";
  EXPECT_EQ(labelled("-a"), lead + "\"-a\": " + kNamePart);
  EXPECT_EQ(labelled("/a"), lead + "\"/a\": prefix part must be non-empty");
  EXPECT_EQ(labelled(std::string(64, 'x')),
            lead + "\"" + std::string(64, 'x') + "\": name part must be no more than 63 bytes");
  EXPECT_EQ(labelled("UP.CASE/x"), lead + "\"UP.CASE/x\": prefix part " + kSubdomain);
  EXPECT_EQ(labelled("a/"), "[" + lead + "\"a/\": name part must be non-empty, " + lead +
                                "\"a/\": " + kNamePart + "]");
  EXPECT_EQ(labelled("a/b/c"),
            lead +
                "\"a/b/c\": a valid label key must consist of alphanumeric characters, '-', '_' or "
                "'.', and must start and end with an alphanumeric character (e.g. 'MyName',  or "
                "'my.name',  or '123-abc', regex used for validation is "
                "'([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]') with an optional DNS subdomain prefix "
                "and '/' (e.g. 'example.com/MyName')");
  EXPECT_EQ(labelled("example.test/ok"), "");
}

TEST(Names, WhenLabelValuesAreBroken_TextsAreTheRecordedOnesAM165) {
  const std::string lead = "metadata.labels: Invalid value: ";
  EXPECT_EQ(labelled("l", std::string(64, 'x')),
            lead + "\"" + std::string(64, 'x') + "\": must be no more than 63 bytes");
  EXPECT_EQ(labelled("l", "a b"),
            lead +
                "\"a b\": a valid label must be an empty string or consist of alphanumeric "
                "characters, '-', '_' or '.', and must start and end with an alphanumeric "
                "character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation "
                "is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')");
  EXPECT_EQ(labelled("l", ""), "");
  EXPECT_EQ(labelled("l", "ok_-.1"), "");
}

TEST(ObjectMeta, WhenAnnotationsAreChecked_CaseOfPrefixIsFreeAM060AM165) {
  const auto annotated = [](const std::string& key, const std::string& value) {
    return faults(
        Json::object(
            {{"name", "a"}, {"namespace", "t"}, {"annotations", Json::object({{key, value}})}})
            .dump());
  };
  EXPECT_EQ(annotated("EXAMPLE.test/ok", " any \n"), "");
  EXPECT_EQ(annotated("/x", ""),
            "metadata.annotations: Invalid value: \"/x\": prefix part must be non-empty");
  EXPECT_EQ(annotated("a b", ""),
            std::string("metadata.annotations: Invalid value: \"a b\": ") + kNamePart);
  EXPECT_EQ(annotated("k", std::string(262'143, 'x')), "");
  EXPECT_EQ(annotated("k", std::string(262'144, 'x')),
            "metadata.annotations: Too long: may not be more than 262144 bytes");
}

TEST(ObjectMeta, WhenNameOrNamespaceIsMissing_IsRequiredAM156) {
  EXPECT_EQ(faults(R"({"namespace":"t"})"),
            "metadata.name: Required value: name or generateName is required");
  EXPECT_EQ(faults(R"({"name":"a"})"), "metadata.namespace: Required value");
  const MetaRules cluster{.namespaced = false, .name = NameRule::kLabel, .builtin = true};
  EXPECT_EQ(faults(R"({"name":"a"})", cluster), "");
  EXPECT_EQ(faults(R"({"name":"a","namespace":"t"})", cluster),
            "metadata.namespace: Forbidden: not allowed on this type");
  EXPECT_EQ(faults(R"({"name":"a.b"})", cluster),
            "metadata.name: Invalid value: \"a.b\": must not contain dots");
  EXPECT_EQ(faults(R"({"generateName":"gen-","name":"gen-x","namespace":"t"})"), "");
  EXPECT_EQ(faults(R"({"generateName":"G","name":"a","namespace":"t"})"),
            std::string("metadata.generateName: Invalid value: \"G\": ") + kSubdomain);
}

TEST(ObjectMeta, WhenOwnersAreBroken_TextsAreTheRecordedOnesAM165) {
  EXPECT_EQ(faults(R"({"name":"b","namespace":"t","ownerReferences":[{}]})"),
            "[metadata.ownerReferences.apiVersion: Invalid value: \"\": version must not be empty, "
            "metadata.ownerReferences.kind: Invalid value: \"\": must not be empty, "
            "metadata.ownerReferences.name: Invalid value: \"\": must not be empty, "
            "metadata.ownerReferences.uid: Invalid value: \"\": must not be empty]");
  EXPECT_EQ(
      faults(
          R"({"name":"b","namespace":"t","ownerReferences":[{"apiVersion":"v1","controller":true,"kind":"ConfigMap","name":"owner","uid":"u"},{"apiVersion":"v1","controller":true,"kind":"ConfigMap","name":"o2","uid":"v"}]})"),
      "metadata.ownerReferences: Invalid value: "
      "[{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"name\":\"owner\",\"uid\":\"u\","
      "\"controller\":true},{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"name\":\"o2\",\"uid\":"
      "\"v\",\"controller\":true}]: Only one reference can have Controller set to true. Found "
      "\"true\" in references for ConfigMap/owner and ConfigMap/o2");
  EXPECT_EQ(
      faults(
          R"({"name":"b","namespace":"t","ownerReferences":[{"apiVersion":"v1","kind":"Event","name":"e","uid":"u"}]})"),
      "metadata.ownerReferences: Invalid value: "
      "{\"apiVersion\":\"v1\",\"kind\":\"Event\",\"name\":\"e\",\"uid\":\"u\"}: /v1, Kind=Event is "
      "disallowed from being an owner");
}

TEST(ObjectMeta, WhenFinalizersAreBroken_FieldHasTheIndexAM165) {
  constexpr std::string_view kMeta =
      R"({"name":"b","namespace":"t","finalizers":["orphan","plain","a.b/c"]})";
  EXPECT_EQ(
      faults(kMeta, {.builtin = true}),
      "metadata.finalizers[1]: Invalid value: \"plain\": name is neither a standard finalizer "
      "name nor is it fully qualified");
  EXPECT_EQ(faults(kMeta), "");
  EXPECT_EQ(faults(R"({"name":"b","namespace":"t","finalizers":["/x"]})"),
            "metadata.finalizers: Invalid value: \"/x\": prefix part must be non-empty");
  EXPECT_EQ(faults(R"({"name":"b","namespace":"t","finalizers":["orphan","foregroundDeletion"]})"),
            "metadata.finalizers: Invalid value: [\"orphan\",\"foregroundDeletion\"]: finalizer "
            "orphan and foregroundDeletion cannot be both set");
}

}  // namespace
}  // namespace kintsugi::krm
