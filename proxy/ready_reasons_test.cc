// FP-157: who is told why the proxy is not ready; FP-160: metrics that are not there yet.
#include <gtest/gtest.h>

#include "proxy/testing/rig.h"

namespace kintsugi::proxy {
namespace {

using testing::Answer;
using testing::Rig;

constexpr const char* kAsked = "/readyz?verbose";

void refuse_something(ProxyHandlerParams& params) {
  params.why_not_ready = [](const auto& done) { done("alpha: /x: 403 not for you"); };
}

std::string told(Rig& rig, const char* target = kAsked) {
  Answer answer;
  rig.ask(answer, Rig::get(target));
  EXPECT_EQ(answer.status, 500);
  EXPECT_NE(answer.body.find("readyz check failed"), std::string::npos) << answer.body;
  return answer.body;
}

TEST(ReadyReasons, WhenTheStoreIsAway_GR_204_OnlyTheStrictOneFails) {
  bool writable = false;
  Rig rig(nullptr, [&](ProxyHandlerParams& params) { params.writable = [&] { return writable; }; });
  const auto ask = [&](const char* target) {
    Answer answer;
    rig.ask(answer, Rig::get(target));
    return std::to_string(answer.status) + " " + answer.body;
  };
  const std::string lines =
      "[+]ping ok\n[+]informer-sync ok\n[!]store: what the proxy stores is read-only\n"
      "[+]shutdown ok\n";
  EXPECT_EQ(ask("/readyz"), "200 " + lines + "readyz check passed\n");
  EXPECT_EQ(ask("/readyz?strict"), "500 " + lines + "readyz check failed\n");
  EXPECT_EQ(ask("/livez?strict"), "200 ok");
  writable = true;
  EXPECT_EQ(ask("/readyz?strict"), "200 ok");
}

TEST(ReadyReasons, WhenTheProxyIsNotReady_FP157_OnlyWhoMayIsToldWhy) {
  Rig outside(nullptr, refuse_something);
  outside.ready = false;
  outside.permissions.allow = true;
  const std::string withheld = "[-]informer-sync failed: reason withheld\n";
  EXPECT_NE(told(outside).find(withheld), std::string::npos) << "nobody";
  Rig rig(nullptr, refuse_something);
  rig.ready = false;
  rig.permissions.allow = true;
  rig.log_in();
  EXPECT_NE(told(rig).find("[-]informer-sync failed: alpha: /x: 403 not for you\n"),
            std::string::npos);
  EXPECT_NE(told(rig, "/readyz").find(withheld), std::string::npos) << "nobody asked";
  rig.permissions.allow = false;
  EXPECT_NE(told(rig).find(withheld), std::string::npos) << "without the right";
  rig.ready = true;
  Answer answer;
  rig.ask(answer, Rig::get(kAsked));
  EXPECT_EQ(answer.status, 200);
  EXPECT_EQ(answer.body.find("alpha"), std::string::npos);
}

TEST(ReadyReasons, WhenThereAreNoMetricsYet_FP160_NoEmptyPageIsGiven) {
  Rig rig(nullptr,
          [](ProxyHandlerParams& params) { params.metrics = [](const auto& done) { done(""); }; });
  rig.log_in();
  rig.permissions.allow = true;
  Answer answer;
  rig.ask(answer, Rig::get("/metrics"));
  EXPECT_EQ(answer.status, 503);
}

}  // namespace
}  // namespace kintsugi::proxy
