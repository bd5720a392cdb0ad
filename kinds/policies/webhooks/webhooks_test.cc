#include <gtest/gtest.h>

#include <string>

#include "apiserver/testing/fake_server.h"
#include "base/metric_families.h"
#include "kinds/builtin_kinds.h"
#include "kinds/policies/webhooks/internal/admission_review.h"
#include "kinds/policies/webhooks/internal/webhook.h"
#include "kinds/policies/webhooks/webhook_totals.h"

namespace kintsugi::kinds {
namespace {

using apiserver::testing::config_map;
using apiserver::testing::Exchange;
using apiserver::testing::FakeServer;
using krm::Json;

constexpr const char* kMaps = "/api/v1/namespaces/t1/configmaps";
const std::string kPath = "/apis/admissionregistration.k8s.io/v1/";

Json json(std::string_view text) {
  Expected<Json> parsed = Json::parse(text);
  EXPECT_TRUE(parsed) << text;
  return parsed ? std::move(*parsed) : Json();
}

/// A review whose response has these members besides its uid.
std::string review(const std::string& members, const std::string& uid = "u1") {
  return R"({"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","response":{"uid":")" +
         uid + "\"" + (members.empty() ? "" : "," + members) + "}}";
}

/// Why the answer cannot be used; "": it can.
std::string fault(const std::string& body, bool mutating = true) {
  const Expected<AdmissionAnswer> answer = decode_admission_review("v1", "u1", mutating, body);
  return answer ? std::string() : std::string(answer.error().message());
}

TEST(AdmissionReview, WhenAsked_AM334_HasWhatWebhooksKnow) {
  PolicyRequest request;
  request.operation = "CREATE";
  request.resource = {"", "v1", "configmaps"};
  request.kind = {"", "v1", "ConfigMap"};
  request.ns = "t1";
  request.name = "a";
  request.user = json(R"({"username":"u"})");
  request.options = Json::object({{"kind", "CreateOptions"}});
  const Json object = json(R"({"kind":"ConfigMap"})");
  const Json sent = json(encode_admission_review(
      {"v1", "u1", request, request.resource, request.kind, &object, nullptr}));
  EXPECT_EQ(sent.text({"apiVersion"}), "admission.k8s.io/v1");
  EXPECT_EQ(sent.text({"request", "uid"}), "u1");
  EXPECT_EQ(sent.at({"request", "object"})->dump(), R"({"kind":"ConfigMap"})");
  EXPECT_TRUE(sent.at({"request", "oldObject"})->is_null());
  EXPECT_EQ(sent.text({"request", "namespace"}), "t1");
  EXPECT_EQ(sent.at({"request", "subResource"}), nullptr);
}

TEST(AdmissionReview, WhenAnAnswerCannotBeUsed_SE108_SaysNothingOfIt) {
  const std::string none = "the answer was not understood";
  for (const std::string& body :
       {std::string(), std::string("secret"), std::string("[]"), std::string("{}"),
        std::string(R"({"kind":"Secret","response":{"uid":"u1"}})"),
        review(R"("allowed":"secret")"), review(R"("status":"secret")"),
        review(R"("warnings":[1])"), review(R"("auditAnnotations":{"a":1})"),
        review(R"("patch":"%%","patchType":"JSONPatch")")}) {
    EXPECT_EQ(fault(body), none) << body;
  }
  EXPECT_EQ(fault(R"({"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1"})"),
            "webhook response was absent");
  EXPECT_EQ(fault(review("", "secret")), "expected response.uid to be that of the request");
  EXPECT_EQ(fault(R"({"kind":"AdmissionReview","apiVersion":"x/v1","response":{"uid":"u1"}})"),
            "expected webhook response of admission.k8s.io/v1, Kind=AdmissionReview");
  EXPECT_EQ(fault(review(R"("patch":"W10=")")),
            "webhook returned response.patch but not response.patchType");
  EXPECT_EQ(fault(review(R"("patchType":"JSONPatch")")),
            "webhook returned response.patchType but not response.patch");
  EXPECT_EQ(fault(review(R"("patch":"W10=","patchType":"secret")")),
            "webhook returned invalid response.patchType");
  EXPECT_EQ(fault(review(R"("patch":"W10=")"), false),
            "validating webhook may not return response.patch");
  EXPECT_EQ(fault(review(R"("patchType":"JSONPatch")"), false),
            "validating webhook may not return response.patchType");
}

TEST(AdmissionReview, WhenAnAnswerIsFine_AM334_IsTaken) {
  const Expected<AdmissionAnswer> answer = decode_admission_review(
      "v1", "u1", true,
      review(R"("allowed":true,"patch":"W10=","patchType":"JSONPatch","warnings":["w"],)"
             R"("auditAnnotations":{"k":"v"})"));
  ASSERT_TRUE(answer);
  EXPECT_TRUE(answer->allowed);
  EXPECT_EQ(answer->patch, "[]");
  EXPECT_EQ(answer->warnings, std::vector<std::string>{"w"});
  EXPECT_EQ(answer->annotations.front().second, "v");
  const Expected<AdmissionAnswer> old = decode_admission_review(
      "v1beta1", "u1", true, R"({"response":{"allowed":true,"patch":"W10="}})");
  ASSERT_TRUE(old) << "v1beta1 has neither uid nor kind";
  EXPECT_EQ(old->patch, "[]");
}

TEST(AdmissionReview, WhenARequestIsRefused_AM334_TheStatusIsTheWebhooks) {
  const std::string begin = "admission webhook \"h\" denied the request";
  const auto said = [](std::string_view status) {
    return std::string(denial_status("h", json(status)).text({"message"}));
  };
  EXPECT_EQ(said("{}"), begin + " without explanation");
  EXPECT_EQ(said(R"({"message":"m","reason":"R"})"), begin + ": m");
  EXPECT_EQ(said(R"({"reason":"R"})"), begin + ": R");
  const Json status = denial_status("h", json(R"({"code":418,"reason":"R","details":{"a":1}})"));
  EXPECT_EQ(status.find("code")->as_integer(), 418);
  EXPECT_EQ(status.text({"reason"}), "R");
  EXPECT_NE(status.find("details"), nullptr);
  EXPECT_EQ(denial_status("h", json(R"({"code":200})")).find("code")->as_integer(), 400);
  EXPECT_EQ(denial_status("h", json(R"({"code":9999})")).find("code")->as_integer(), 599);
  EXPECT_EQ(denial_error(status).detail().http_status, 418);
}

TEST(WebhookTotals, WhenCallsAreCounted_AM334_NoNameIsShown) {
  WebhookTotals totals;
  totals.count({true, "CREATE", "", 200, false, milliseconds(20)});
  totals.count({false, "DELETE", "calling_webhook_error", 503, false, seconds(30)});
  totals.count({false, "UPDATE", "", 503, true, seconds(1)});
  class Source final : public MetricSource {
   public:
    explicit Source(const WebhookTotals& of) : totals_(of) {}
    void fill(MetricFamilies& out) const override { totals_.fill(out); }

   private:
    const WebhookTotals& totals_;
  } source(totals);
  const std::string text = metrics_text({&source});
  for (
      const char* line :
      {R"(apiserver_admission_webhook_request_total{type="admit",operation="CREATE",code="200",rejected="false"} 1)",
       R"(apiserver_admission_webhook_rejection_count{type="validating",operation="DELETE",error_type="calling_webhook_error",rejection_code="503"} 1)",
       R"(apiserver_admission_webhook_fail_open_count{type="validating"} 1)",
       R"(apiserver_admission_webhook_admission_duration_seconds_bucket{type="admit",operation="CREATE",rejected="false",le="0.025"} 1)"}) {
    EXPECT_NE(text.find(line), std::string::npos) << line << "\n" << text;
  }
  EXPECT_EQ(text.find("name="), std::string::npos);
}

/// Webhooks that nobody can call, as they name Services: what becomes of the requests.
class UnreachableWebhooks : public ::testing::Test {
 protected:
  UnreachableWebhooks() : server(builtin_kinds(), "lc") {
    EXPECT_EQ(
        server.send("POST", "/api/v1/namespaces", json(R"({"metadata":{"name":"t1"}})")).status(),
        201);
  }
  Exchange configure(const std::string& plural, const std::string& more) {
    Exchange made = server.send(
        "POST", kPath + plural,
        json(R"({"metadata":{"name":"c"},"webhooks":[{"name":"a.b.c","clientConfig":{"service":)"
             R"({"name":"s","namespace":"n"}},"admissionReviewVersions":["v1"],)"
             R"("sideEffects":"None","rules":[{"apiGroups":[""],"apiVersions":["v1"],)"
             R"("operations":["*"],"resources":["configmaps"]}])" +
             more + "}]}"));
    server.settle();
    return made;
  }
  FakeServer server;
};

TEST_F(UnreachableWebhooks, WhenOneFails_AM334_ItsPolicyDecides) {
  for (const char* plural : {"mutatingwebhookconfigurations", "validatingwebhookconfigurations"}) {
    Exchange made = configure(plural, "");
    ASSERT_EQ(made.status(), 201) << made.body();
    EXPECT_NE(made.header("warning").find("there are no services here"), std::string_view::npos);
    const Json entry = made.json().find("webhooks")->items()[0];
    EXPECT_EQ(entry.text({"failurePolicy"}), "Fail");
    EXPECT_EQ(entry.find("timeoutSeconds")->as_integer(), 10);
    EXPECT_EQ(entry.at({"clientConfig", "service", "port"})->as_integer(), 443);
    Exchange refused = server.send("POST", kMaps, config_map("m"));
    EXPECT_EQ(refused.status(), 500);
    EXPECT_EQ(refused.json().text({"message"}),
              "Internal error occurred: failed calling webhook \"a.b.c\": failed to call webhook: "
              "there are no services here, clientConfig.url is needed");
    EXPECT_EQ(refused.json().text({"reason"}), "InternalError");
    EXPECT_EQ(server.send("DELETE", kPath + plural + "/c").status(), 200) << "it is exempt itself";
    server.settle();
    ASSERT_EQ(configure(plural, R"(,"failurePolicy":"Ignore")").status(), 201);
    EXPECT_EQ(server.send("POST", kMaps, config_map("m")).status(), 201);
    EXPECT_NE(server.audit().back().find("failed-open."), std::string::npos);
    EXPECT_EQ(server.send("DELETE", std::string(kMaps) + "/m").status(), 200);
    EXPECT_EQ(server.send("DELETE", kPath + plural + "/c").status(), 200);
    server.settle();
  }
}

TEST_F(UnreachableWebhooks, WhenOneIsNotAboutTheRequest_AM334_ItIsNotAsked) {
  ASSERT_EQ(
      configure("validatingwebhookconfigurations",
                R"(,"matchConditions":[{"name":"n","expression":"object.metadata.name == 'x'"}])")
          .status(),
      201);
  EXPECT_EQ(server.send("POST", kMaps, config_map("m")).status(), 201);
  EXPECT_EQ(server.send("POST", kMaps, config_map("x")).status(), 500);
  EXPECT_EQ(
      server.send("POST", "/api/v1/namespaces/t1/secrets", json(R"({"metadata":{"name":"x"}})"))
          .status(),
      201);
  EXPECT_EQ(server.send("POST", "/clusters/other" + std::string(kMaps), config_map("x")).status(),
            404)
      << "no namespace there; and no webhook";
}

TEST_F(UnreachableWebhooks, WhenAConfigurationIsWrong_AM334_EveryFaultIsTold) {
  Exchange refused = server.send(
      "POST", kPath + "mutatingwebhookconfigurations",
      json(R"({"metadata":{"name":"c"},"webhooks":[{"name":"a.b","reinvocationPolicy":"Foo",)"
           R"("clientConfig":{"service":{"path":"x//y","port":0}},"admissionReviewVersions":["A"],)"
           R"("sideEffects":"Some","rules":[{"apiGroups":["*","a"],"apiVersions":["v1"],)"
           R"("operations":["FOO"],"resources":["*/*","a"],"scope":"Foo"}]}]})"));
  ASSERT_EQ(refused.status(), 422);
  std::string fields;
  const Json status = refused.json();
  for (const Json& cause : status.at({"details", "causes"})->items()) {
    fields += std::string(cause.text({"field"})).substr(sizeof("webhooks[0].") - 1) + " ";
  }
  EXPECT_EQ(fields,
            "name rules[0].operations[0] rules[0].apiGroups rules[0].resources rules[0].scope "
            "sideEffects reinvocationPolicy clientConfig.service.name "
            "clientConfig.service.namespace clientConfig.service.port clientConfig.service.path "
            "clientConfig.service.path clientConfig.service.path admissionReviewVersions[0] "
            "admissionReviewVersions ");
}

}  // namespace
}  // namespace kintsugi::kinds
