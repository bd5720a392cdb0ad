// Conversion webhooks, over TLS on the loop of the server (AM-338, AM-399).
#include <gtest/gtest.h>

#include <optional>

#include "apiserver/internal/conversion_review.h"
#include "apiserver/tenant_rules.h"
#include "apiserver/testing/fake_server.h"
#include "base/strings.h"
#include "kinds/builtin_kinds.h"
#include "net/listener.h"
#include "net/x509_maker.h"

namespace kintsugi::apiserver {
namespace {

using internal::ConversionRequest;
using krm::Json;
using testing::Exchange;
using testing::FakeServer;

constexpr const char* kMerge = "application/merge-patch+json";

Json parse(std::string_view text) {
  Expected<Json> json = Json::parse(text);
  EXPECT_TRUE(json) << text;
  return json ? std::move(*json) : Json();
}

ConversionRequest request() {
  ConversionRequest out;
  out.review_version = "v1";
  out.uid = "u1";
  out.desired = "ex.io/v1";
  out.objects.push_back(parse(
      R"({"apiVersion":"ex.io/v1beta1","kind":"Cog","metadata":{"name":"a","namespace":"t1",
          "uid":"1","labels":{"l":"1"},"generation":2},"spec":{"old":1}})"));
  return out;
}

/// The error's text; "" for success.
std::string fault(std::string_view response) {
  const ConversionRequest asked = request();
  std::string body = R"({"apiVersion":"apiextensions.k8s.io/v1","kind":"ConversionReview",)";
  body += "\"response\":" + std::string(response) + "}";
  const auto objects = internal::decode_review(asked, body);
  return objects ? std::string() : std::string(objects.error().message());
}

std::string success(std::string_view objects) {
  return R"({"uid":"u1","result":{"status":"Success"},"convertedObjects":[)" +
         std::string(objects) + "]}";
}

constexpr std::string_view kSubject = "conversion webhook for ex.io/v1beta1, Kind=Cog";

TEST(ConversionReview, AM399_WhenAsked_HasWhatWebhooksNeed) {
  EXPECT_EQ(internal::encode_review(request()),
            R"({"kind":"ConversionReview","apiVersion":"apiextensions.k8s.io/v1","request":)"
            R"({"uid":"u1","desiredAPIVersion":"ex.io/v1","objects":[{"apiVersion":)"
            R"("ex.io/v1beta1","kind":"Cog","metadata":{"generation":2,"labels":{"l":"1"},)"
            R"("name":"a","namespace":"t1","uid":"1"},"spec":{"old":1}}]}})");
}

TEST(ConversionReview, AM399_KK190_WhenAnswered_MetadataIsTheOriginalsButLabelsAndAnnotations) {
  const auto objects = internal::decode_review(
      request(),
      R"({"apiVersion":"apiextensions.k8s.io/v1","kind":"ConversionReview","response":)" +
          success(R"({"apiVersion":"ex.io/v1","kind":"Cog","metadata":{"name":"a",
                       "namespace":"t1","uid":"1","generation":7,"annotations":{"x":"y"}},
                       "spec":{"new":1}})") +
          "}");
  ASSERT_TRUE(objects) << objects.error().message();
  EXPECT_EQ(objects->front().dump(),
            R"({"apiVersion":"ex.io/v1","kind":"Cog","metadata":{"annotations":{"x":"y"},)"
            R"("generation":2,"name":"a","namespace":"t1","uid":"1"},"spec":{"new":1}})");
}

TEST(ConversionReview, AM399_WhenTheAnswerIsWrong_SaysHow) {
  const std::string subject(kSubject);
  EXPECT_EQ(fault("null"), subject + " failed: no response provided");
  EXPECT_EQ(fault(R"({"uid":"u2"})"),
            subject + " failed: expected response.uid=\"u1\", got \"u2\"");
  EXPECT_EQ(fault(R"({"uid":"u1","result":{"status":"Failure"}})"),
            subject + " failed: response.result.status was 'Failure', not 'Success'");
  EXPECT_EQ(fault(R"({"uid":"u1","result":{"status":"Failure","message":"no way"}})"),
            subject + " failed: no way");
  EXPECT_EQ(fault(success("")), subject + " returned 0 objects, expected 1");
  EXPECT_EQ(fault(success(R"({"apiVersion":"ex.io/v2","kind":"Cog"})")),
            subject +
                " returned invalid object at index 0: invalid groupVersion (expected "
                "ex.io/v1, received ex.io/v2)");
  EXPECT_EQ(fault(success(R"({"apiVersion":"ex.io/v1","kind":"Dog"})")),
            subject +
                " returned invalid object at index 0: invalid kind (expected Cog, received "
                "Dog)");
  EXPECT_EQ(fault(success(R"({"apiVersion":"ex.io/v1","kind":"Cog","metadata":{"name":"b"}})")),
            subject + " returned invalid object at index 0: must have the same name: a != b");
  EXPECT_EQ(fault(success(R"({"apiVersion":"ex.io/v1","kind":"Cog","metadata":{"name":"a",
                              "namespace":"t1","uid":"2"}})")),
            subject + " returned invalid object at index 0: must have the same UID: 1 != 2");
  EXPECT_EQ(fault(success(R"({"apiVersion":"ex.io/v1","kind":"Cog","metadata":{"name":"a",
                              "namespace":"t1","uid":"1","labels":{"l":5}}})")),
            subject +
                " returned invalid metadata at index 0: metadata.labels[l] must be a string, "
                "but is int64 in converted object");
  EXPECT_TRUE(fault(success(R"({"apiVersion":"ex.io/v1","kind":"Cog","metadata":{"name":"a",
                              "namespace":"t1","uid":"1","labels":{"-":"x"}}})"))
                  .starts_with(subject + " returned invalid metadata at index 0: metadata.labels"));
  const auto other = internal::decode_review(request(), R"({"apiVersion":"v1","kind":"Pod"})");
  EXPECT_EQ(other.error().message(),
            subject +
                " failed: expected webhook response of apiextensions.k8s.io/v1, "
                "Kind=ConversionReview, got v1, Kind=Pod");
  EXPECT_TRUE(
      internal::decode_review(request(), "{").error().message().starts_with(subject + " failed: "));
}

TEST(ConversionReview, AM399_WhenNoReviewVersionIsOurs_Fails) {
  ConversionWebhook webhook;
  webhook.review_versions = {"v9", "v1beta1", "v1"};
  EXPECT_EQ(*internal::review_version(webhook), "v1beta1");
  webhook.review_versions = {"v9"};
  EXPECT_FALSE(internal::review_version(webhook));
}

/// Moves spec.old to spec.new on the way to v1, and back.
class Webhook final : public http::Handler {
 public:
  explicit Webhook(net::Loop& loop) {
    ca = *net::make_ca("hook-ca");
    net::CertificateRequest serving;
    serving.common_name = "hook";
    serving.ip_addresses = {"127.0.0.1"};
    serving.server = true;
    const net::KeyPair pair = *net::issue(ca, serving);
    net::TlsParams params;
    params.certificate_pem = pair.certificate_pem;
    params.key_pem = pair.key_pem;
    net::ListenerParams listening;
    listening.tls = *net::TlsContext::server(params);
    listener = *net::Listener::open(loop, std::move(listening), *this);
  }
  [[nodiscard]] std::string url() const {
    return "https://127.0.0.1:" + std::to_string(listener->port()) + "/convert";
  }

  std::unique_ptr<http::RequestHandler> on_request(http::RequestHead head,
                                                   http::ResponseStream& stream) noexcept override {
    target = head.target;
    return std::make_unique<Call>(*this, stream);
  }

  struct Call final : http::RequestHandler {
    Call(Webhook& the_hook, http::ResponseStream& the_stream)
        : hook(the_hook), stream(the_stream) {}
    void on_data(std::string_view bytes, bool end) noexcept override {
      body += bytes;
      stream.consume(bytes.size());
      if (end) {
        const std::string answer = hook.raw ? *hook.raw : hook.answer(parse(body));
        http::HeaderList headers;
        headers.add("content-type", "application/json");
        stream.send_head(hook.status, headers, false);
        stream.send_data(answer, true);
      }
    }
    void on_close(Errc) noexcept override {}
    Webhook& hook;
    http::ResponseStream& stream;
    std::string body;
  };

  std::string answer(const Json& review) {
    const Json& asked = *review.find("request");
    sizes.push_back(asked.find("objects")->size());
    Json out = review;
    out.erase("request");
    Json& response = out["response"] = Json::object();
    response["uid"] = asked.text({"uid"});
    if (!failure.empty()) {
      response["result"] = Json::object({{"status", "Failure"}, {"message", failure}});
      return out.dump();
    }
    response["result"] = Json::object({{"status", "Success"}});
    Json& converted = response["convertedObjects"] = Json::array();
    const std::string_view desired = asked.text({"desiredAPIVersion"});
    const bool to_new = desired == "ex.io/v1";
    for (Json object : asked.find("objects")->items()) {
      object["apiVersion"] = desired;
      Json& spec = object["spec"];
      if (const Json* value = spec.find(to_new ? "old" : "new")) {
        const Json kept = *value;
        spec.erase(to_new ? "old" : "new");
        spec[to_new ? "new" : "old"] = kept;
      }
      converted.push_back(std::move(object));
    }
    return out.dump();
  }

  net::KeyPair ca;
  std::unique_ptr<net::Listener> listener;
  std::string target, failure;
  std::optional<std::string> raw;  ///< instead of a review
  int status = 200;
  std::vector<std::size_t> sizes;  ///< objects in each review
};

class Conversion : public ::testing::Test {
 protected:
  Conversion() : server(kinds::builtin_kinds(), "lc"), hook(server.loop()) {
    net::OutgoingRules rules;
    rules.allow = {"127.0.0.0/8"};
    set_tenant_rules(server.server(), {.cluster_of = {},
                                       .has_shard_endpoints = false,
                                       .outgoing = std::make_shared<const net::OutgoingPolicy>(
                                           *net::make_outgoing_policy(rules))});
    server.registry().follow(server.server());
    Json ns = Json::object();
    ns.make({"metadata", "name"}) = "t1";
    EXPECT_EQ(server.send("POST", "/api/v1/namespaces", ns).status(), 201);
    Json crd = parse(R"({"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition",
      "metadata":{"name":"cogs.ex.io"},"spec":{"group":"ex.io","scope":"Namespaced",
      "names":{"plural":"cogs","singular":"cog","kind":"Cog","listKind":"CogList"},"versions":[
      {"name":"v1beta1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object",
        "properties":{"spec":{"type":"object","properties":{"old":{"type":"integer"}}}}}}},
      {"name":"v1","served":true,"storage":false,"schema":{"openAPIV3Schema":{"type":"object",
        "properties":{"spec":{"type":"object","properties":{"new":{"type":"integer"},
          "d":{"type":"string","default":"d"}}}}}}}]}})");
    crd.make({"spec", "conversion"}) =
        parse(R"({"strategy":"Webhook","webhook":{"conversionReviewVersions":["v1"]}})");
    crd.make({"spec", "conversion", "webhook", "clientConfig"}) =
        Json::object({{"url", hook.url()}, {"caBundle", base64_encode(hook.ca.certificate_pem)}});
    Exchange made = server.send("POST", kDefinitions, crd);
    EXPECT_EQ(made.status(), 201) << made.body();
    patch(std::string(kDefinitions) + "/cogs.ex.io/status",
          R"({"status":{"acceptedNames":{"plural":"cogs","singular":"cog","kind":"Cog",
          "listKind":"CogList"},"conditions":[{"type":"Established","status":"True","reason":"x",
          "message":"","lastTransitionTime":"2026-01-01T00:00:00Z"}]}})");
  }
  Exchange patch(const std::string& target, std::string_view body) {
    Exchange done = server.send("PATCH", target, body, {{"content-type", kMerge}});
    EXPECT_EQ(done.status(), 200) << done.body();
    return done;
  }
  static std::string path(std::string_view version, std::string_view name = "") {
    std::string out = "/apis/ex.io/" + std::string(version) + "/namespaces/t1/cogs";
    return name.empty() ? out : out + "/" + std::string(name);
  }
  Exchange create(std::string_view version, std::string_view name, std::string_view spec) {
    Json out = Json::object({{"apiVersion", "ex.io/" + std::string(version)}, {"kind", "Cog"}});
    out.make({"metadata", "name"}) = name;
    out["spec"] = parse(spec);
    return server.send("POST", path(version), out);
  }
  Exchange get(const std::string& target) { return server.send("GET", target); }
  std::string message(const std::string& target) {
    Exchange read = get(target);
    EXPECT_EQ(read.status(), 500);
    return std::string(read.json().text({"message"}));
  }
  static std::string failed(const std::string& why) {
    return "conversion webhook for ex.io/v1beta1, Kind=Cog failed: " + why;
  }
  static std::string spec(const Exchange& exchange) {
    const Json object = exchange.json();
    const Json* found = object.find("spec");
    return found == nullptr ? exchange.body() : found->dump();
  }

  static constexpr const char* kDefinitions =
      "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
  FakeServer server;
  Webhook hook;
};

TEST_F(Conversion, AM399_WhenReadAndWrittenAtAnotherVersion_TheWebhookConverts) {
  ASSERT_EQ(create("v1beta1", "a", R"({"old":1})").status(), 201);
  EXPECT_EQ(spec(get(path("v1beta1", "a"))), R"({"old":1})");
  EXPECT_TRUE(hook.sizes.empty());  // already there
  Exchange read = get(path("v1", "a"));
  EXPECT_EQ(spec(read), R"({"new":1})");  // defaults are those of the version that it lies in
  EXPECT_EQ(read.json().text({"apiVersion"}), "ex.io/v1");
  EXPECT_EQ(hook.target, "/convert?timeout=30s");
  Exchange made = create("v1", "b", R"({"new":2})");
  EXPECT_EQ(made.status(), 201);
  EXPECT_EQ(spec(made), R"({"new":2})");
  EXPECT_EQ(spec(get(path("v1beta1", "b"))), R"({"old":2})");
  EXPECT_EQ(spec(patch(path("v1", "b"), R"({"spec":{"new":3}})")), R"({"new":3})");
  EXPECT_EQ(spec(get(path("v1beta1", "b"))), R"({"old":3})");
}

TEST_F(Conversion, AM399_WhenListedOrWatched_BatchesAreConvertedInOrder) {
  for (const char* name : {"a", "b", "c"}) {
    ASSERT_EQ(create("v1beta1", name, R"({"old":1})").status(), 201);
  }
  const Json list = get(path("v1")).json();
  ASSERT_EQ(list.find("items")->size(), 3U);
  EXPECT_EQ(list.find("items")->items()[2].at({"spec", "new"})->as_integer(), 1);
  EXPECT_EQ(hook.sizes, std::vector<std::size_t>{3});
  const Json page = get(path("v1") + "?limit=2").json();
  EXPECT_EQ(page.find("items")->size(), 2U);
  EXPECT_FALSE(page.text({"metadata", "continue"}).empty());
  Exchange watch = get(path("v1") +
                       "?watch=1&allowWatchBookmarks=true&sendInitialEvents=true"
                       "&resourceVersionMatch=NotOlderThan");
  ASSERT_EQ(create("v1beta1", "d", R"({"old":4})").status(), 201);
  EXPECT_EQ(server.send("DELETE", path("v1beta1", "a")).status(), 200);
  ASSERT_TRUE(server.run_until([&] { return watch.events().size() == 6; }));
  const std::vector<Json> events = watch.events();
  const char* types[] = {"ADDED", "ADDED", "ADDED", "BOOKMARK", "ADDED", "DELETED"};
  for (std::size_t i = 0; i < events.size(); ++i) {
    EXPECT_EQ(events[i].text({"type"}), types[i]);
    EXPECT_EQ(events[i].text({"object", "apiVersion"}), "ex.io/v1");
  }
  EXPECT_EQ(events[4].at({"object", "spec", "new"})->as_integer(), 4);
}

TEST_F(Conversion, AM399_AM338_WhenTheWebhookFails_SaysSoAndDeletionsGoOn) {
  ASSERT_EQ(create("v1beta1", "a", R"({"old":1})").status(), 201);
  hook.failure = "no way";
  Exchange read = get(path("v1", "a"));
  EXPECT_EQ(read.status(), 500);
  EXPECT_EQ(read.json().text({"message"}),
            "conversion webhook for ex.io/v1beta1, Kind=Cog failed: no way");
  EXPECT_EQ(get(path("v1")).status(), 500);
  EXPECT_EQ(create("v1", "b", R"({"new":1})").status(), 500);
  EXPECT_EQ(get(path("v1beta1", "b")).status(), 404);
  Exchange watch = get(path("v1") + "?watch=1");
  ASSERT_TRUE(server.run_until([&] { return watch.stream().ended; }));
  EXPECT_EQ(watch.events().back().text({"type"}), "ERROR");
  hook.failure.clear();
  hook.status = 503;
  EXPECT_EQ(get(path("v1", "a")).status(), 500);
  EXPECT_EQ(message(path("v1", "a")), failed("the server answered 503"));
  hook.listener->close();
  EXPECT_EQ(message(path("v1", "a")), failed("the server could not be reached"));
  EXPECT_EQ(server.send("DELETE", path("v1", "a")).status(), 200);
  EXPECT_EQ(get(path("v1beta1", "a")).status(), 404);
}

TEST_F(Conversion, AM399_WhenItIsAService_FailsClearly) {
  ASSERT_EQ(create("v1beta1", "a", R"({"old":1})").status(), 201);
  patch(std::string(kDefinitions) + "/cogs.ex.io",
        R"({"spec":{"conversion":{"webhook":{"clientConfig":{"url":null,"service":
           {"namespace":"n","name":"s"}}}}}})");
  EXPECT_EQ(message(path("v1", "a")), failed("the URL is not allowed"));
}

TEST_F(Conversion, SE108_WhateverTheWebhookSends_NoByteOfItIsTold) {
  ASSERT_EQ(create("v1beta1", "a", R"({"old":1})").status(), 201);
  for (
      const char* raw :
      {"top secret", "{\"apiVersion\":\"top secret\"}", "[]", "", "{\"kind\":\"top secret\"",
       R"({"apiVersion":"apiextensions.k8s.io/v1","kind":"ConversionReview","response":{"uid":"top secret"}})",
       R"({"apiVersion":"apiextensions.k8s.io/v1","kind":"ConversionReview","response":{"uid":"x","result":{"status":"Failure","message":"top secret"}}})"}) {
    hook.raw = raw;
    EXPECT_EQ(message(path("v1", "a")), failed("the answer was not understood")) << raw;
  }
  hook.raw.reset();
  hook.failure = std::string(300, 'm') + "\n\x7f";
  EXPECT_EQ(message(path("v1", "a")), failed(std::string(256, 'm')));
  hook.failure = "a\nb\x1b[31mc";
  EXPECT_EQ(message(path("v1", "a")), failed("ab[31mc"));
}

TEST_F(Conversion, SE106_WhereAWebhookMayNotBe_ItIsNotAskedAndTheTextSaysOnlyThat) {
  ASSERT_EQ(create("v1beta1", "a", R"({"old":1})").status(), 201);
  for (const char* url :
       {"https://169.254.169.254/latest", "https://10.0.0.1/", "https://[::1]/",
        "https://[fd00::1]/", "https://8.8.8.8:22/", "https://0x7f.1/", "https://2130706433/"}) {
    patch(std::string(kDefinitions) + "/cogs.ex.io",
          R"({"spec":{"conversion":{"webhook":{"clientConfig":{"url":")" + std::string(url) +
              "\"}}}}}");
    EXPECT_EQ(message(path("v1", "a")), failed("the URL is not allowed")) << url;
  }
  EXPECT_TRUE(hook.sizes.empty());
}

TEST_F(Conversion, AM399_WhenTheStorageVersionMoves_OldObjectsAreConvertedAsTheyWereWritten) {
  ASSERT_EQ(create("v1beta1", "a", R"({"old":1})").status(), 201);
  Json crd = get(std::string(kDefinitions) + "/cogs.ex.io").json();
  crd.at({"spec", "versions"})->edit_items()[0]["storage"] = false;
  crd.at({"spec", "versions"})->edit_items()[1]["storage"] = true;
  Exchange moved = server.send("PUT", std::string(kDefinitions) + "/cogs.ex.io", crd);
  ASSERT_EQ(moved.status(), 200) << moved.body();
  EXPECT_EQ(spec(get(path("v1", "a"))), R"({"new":1})");
  EXPECT_EQ(spec(get(path("v1beta1", "a"))), R"({"old":1})");
  hook.sizes.clear();
  EXPECT_EQ(spec(patch(path("v1", "a"), R"({"spec":{"new":2}})")), R"({"d":"d","new":2})");
  EXPECT_EQ(hook.sizes, std::vector<std::size_t>{1});
  EXPECT_EQ(spec(get(path("v1", "a"))), R"({"d":"d","new":2})");
  EXPECT_EQ(hook.sizes, std::vector<std::size_t>{1});
}

}  // namespace
}  // namespace kintsugi::apiserver
