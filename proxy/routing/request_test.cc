#include "proxy/routing/request.h"

#include <gtest/gtest.h>

#include <string>

#include "base/strings.h"

namespace kintsugi::proxy {
namespace {

http::RequestHead get(std::string target) {
  http::RequestHead head;
  head.method = "GET";
  head.target = std::move(target);
  return head;
}

std::string token_of(const std::string& cluster) {
  return base64url_encode(R"({"alg":"ES256"})") + "." +
         base64url_encode(R"({"kubernetes.io":{"clusterName":")" + cluster + "\"}}") + "." +
         base64url_encode("signature");
}

TEST(Request, WhenItIsUnderstood_SE020_TargetAndInfoAreThoseOfTheHead) {
  Request request = understand(get("/clusters/root:one/api/v1/pods?watch=1"), false);
  EXPECT_EQ(request.target.form, krm::TargetForm::kCluster);
  EXPECT_EQ(request.target.cluster, "root:one");
  EXPECT_TRUE(request.target.is_watch);
  EXPECT_TRUE(request.sent.empty());
  const krm::RequestInfo* const first = request.info().get();
  EXPECT_EQ(first->verb, "watch");
  EXPECT_EQ(request.info().get(), first) << "read once";
  request.lead_to(read_target("GET", "/clusters/c1/api/v1/configmaps/a", false));
  EXPECT_EQ(request.target.cluster, "c1");
  EXPECT_FALSE(request.target.is_watch);
  EXPECT_EQ(request.info()->resource, "configmaps");
}

TEST(Request, WhenATokenNamesACluster_FP129_ThePathIsBelowItAndWhatWasSentIsKept) {
  http::RequestHead head = get("/api/v1/pods?limit=1");
  head.headers.add("authorization", "Bearer " + token_of("abc"));
  const Request request = understand(std::move(head), false);
  EXPECT_EQ(request.head.target, "/clusters/abc/api/v1/pods?limit=1");
  EXPECT_EQ(request.target.cluster, "abc");
  EXPECT_EQ(request.sent, "/api/v1/pods?limit=1");
}

TEST(Request, WhenABrowserSendsTheToken_AM313_ItIsReadFirst) {
  http::RequestHead head = get("/api/v1/pods?watch=1");
  head.version = 1;
  head.protocol = "websocket";
  head.headers.add("sec-websocket-protocol",
                   "base64.binary.k8s.io, base64url.bearer.authorization.k8s.io." +
                       base64url_encode(token_of("abc")));
  const Request request = understand(std::move(head), false);
  EXPECT_EQ(request.head.target, "/clusters/abc/api/v1/pods?watch=1");
  EXPECT_TRUE(request.head.headers.contains("authorization"));
  EXPECT_EQ(request.head.headers.get("sec-websocket-protocol"), "base64.binary.k8s.io");
}

TEST(Request, WhenServersArePlain_SE026_WhatFollowsProxyIsTheirs) {
  const std::string target = "/clusters/one/api/v1/namespaces/n/services/s/proxy/a//b";
  EXPECT_EQ(understand(get(target), true).target.fault, krm::TargetFault::kNone);
  Request refused = understand(get(target), false);
  EXPECT_EQ(refused.target.fault, krm::TargetFault::kUnclean);
  EXPECT_EQ(refused.info()->subresource, "proxy") << "the audit log names it all the same";
}

TEST(Request, WhenHeadersSaySo_SE020_NothingOfIt) {
  http::RequestHead head = get("/clusters/root/api");
  for (const char* name : {"judged", "sent", "x-kintsugi-target", "target"}) {
    head.headers.add(name, "/clusters/other");
  }
  const Request request = understand(std::move(head), false);
  EXPECT_EQ(request.target.cluster, "root");
  EXPECT_TRUE(request.sent.empty());
  EXPECT_FALSE(request.judged);
}

}  // namespace
}  // namespace kintsugi::proxy
