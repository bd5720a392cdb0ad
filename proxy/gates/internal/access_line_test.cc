#include "proxy/gates/internal/access_line.h"

#include <gtest/gtest.h>

#include "krm/json.h"
#include "krm/request_target.h"

namespace kintsugi::proxy {
namespace {

using std::chrono::microseconds;

krm::RequestInfo info_of(std::string_view target) {
  const krm::RequestTarget read = krm::parse_target("GET", target);
  return krm::request_info_of("GET", target, read);
}

constexpr std::string_view kTarget =
    "/clusters/root:a/apis/apps/v1/namespaces/t1/deployments/d/scale?token=secret";

AccessEvent event_of(const krm::RequestInfo& info, const AccessNote& note) {
  return {.at = 1'772'600'767'890'123,
          .took = microseconds(2104),
          .first = microseconds(51),
          .method = "GET",
          .target = kTarget,
          .address = "10.0.0.7",
          .agent = "kubectl/v1.30",
          .audit_id = "id-1",
          .trace_parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
          .info = info,
          .note = note,
          .code = 200,
          .in = 3,
          .out = 412};
}

TEST(AccessLine, OP306_ALineOfJsonHasItsFields) {
  const krm::RequestInfo info = info_of(kTarget);
  const AccessNote note{.shard = "shard-1", .cluster = "1x2y", .user = "alice", .groups = 2};
  EXPECT_EQ(access_json(event_of(info, note)),
            R"({"ts":"2026-03-04T05:06:07.890123Z","dur_ms":2.104,"ttfb_ms":0.051,)"
            R"("proto":"HTTP/2","method":"GET",)"
            R"("path":"/clusters/root:a/apis/apps/v1/namespaces/t1/deployments/d/scale",)"
            R"("verb":"get","gvr":"apps/v1/deployments","ns":"t1","name":"d","sub":"scale",)"
            R"("cluster":"1x2y","shard":"shard-1","code":200,"flags":"-","bytes_in":3,)"
            R"("bytes_out":412,"user":"alice","groups_n":2,"client":"10.0.0.7",)"
            R"("agent":"kubectl/v1.30","audit_id":"id-1",)"
            R"("trace":"0af7651916cd43dd8448eb211c80319c"})");
}

TEST(AccessLine, OP306_ALineOfTextIsCommonLogFormatAndMore) {
  const krm::RequestInfo info = info_of(kTarget);
  const AccessNote note{.shard = "shard-1", .cluster = "1x2y", .user = "al ice"};
  EXPECT_EQ(access_text(event_of(info, note)),
            "10.0.0.7 - al_ice [04/Mar/2026:05:06:07 +0000] \"GET "
            "/clusters/root:a/apis/apps/v1/namespaces/t1/deployments/d/scale HTTP/2\" 200 412 "
            "2.104 shard-1 - id-1");
}

TEST(AccessLine, OP306_NothingThatAClientSendsEndsALineOrIsTooLong) {
  const krm::RequestInfo info = info_of("/x");
  AccessNote note{.shard = "", .cluster = "", .user = "a\r\n{\"user\":\"b\"}\x1b[2J\xff"};
  AccessEvent event = event_of(info, note);
  const std::string path = "/" + std::string(600, 'p') + "\n?q";
  const std::string agent = "\"\r\nx\x7f" + std::string(300, 'a');
  event.target = path;
  event.agent = agent;
  event.method = "G ET\n";
  event.audit_id = "i d";
  for (const std::string_view parent :
       {"", "00-", "zz", "00-0af7651916cd43dd8448eb211c80319c",
        "00-0AF7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}) {
    event.trace_parent = parent;
    EXPECT_EQ(access_json(event).find("\"trace\""), std::string::npos) << parent;
  }
  const std::string json = access_json(event);
  EXPECT_EQ(json.find_first_of("\r\n\x1b"), std::string::npos) << json;
  const auto read = krm::Json::parse(json);
  ASSERT_TRUE(read) << json;
  EXPECT_EQ(read->text({"path"}).size(), 512U);
  EXPECT_EQ(read->text({"agent"}).size(), 256U);
  const std::string text = access_text(event);
  EXPECT_EQ(text.find_first_of("\r\n\x1b"), std::string::npos) << text;
  EXPECT_EQ(std::count(text.begin(), text.end(), '"'), 2);
  EXPECT_EQ(std::count(text.begin(), text.end(), ' '), 13) << text;
}

TEST(AccessLine, OP306_FlagsSayWhyItWentAsItDid) {
  const krm::RequestInfo info = info_of("/x");
  struct Row {
    AccessNote note;
    int code;
    bool cut, went;
    std::string flags;
  };
  for (const Row& row :
       {Row{{}, 200, false, false, "-"}, Row{{.has_no_route = true}, 404, false, false, "NR"},
        Row{{.is_served_here = true}, 429, false, false, "RL,LO"},
        Row{{.is_merged = true}, 200, true, true, "MG,DC"}, Row{{}, 200, true, false, "UC"}}) {
    AccessEvent event = event_of(info, row.note);
    event.code = row.code;
    event.was_cut = row.cut;
    event.client_went = row.went;
    EXPECT_EQ(access_flags(event), row.flags);
  }
}

TEST(AccessLine, OP306_WhatIsAlwaysTold) {
  const krm::RequestInfo info = info_of("/x");
  const AccessNote note;
  AccessEvent event = event_of(info, note);
  EXPECT_FALSE(always_told(event, false, seconds(1)));
  EXPECT_TRUE(always_told(event, true, seconds(1))) << "watches, upgrades";
  EXPECT_TRUE(always_told(event, false, microseconds(2104))) << "slow";
  for (const auto& [code, told] : {std::pair(0, true),
                                   {200, false},
                                   {404, false},
                                   {409, false},
                                   {429, true},
                                   {499, false},
                                   {500, true},
                                   {503, true}}) {
    event.code = code;
    EXPECT_EQ(always_told(event, false, seconds(1)), told) << code;
  }
  const krm::RequestInfo probe = info_of("/readyz");
  AccessEvent not_ready = event_of(probe, note);
  not_ready.code = 500;
  EXPECT_FALSE(always_told(not_ready, false, seconds(1))) << "probes are a share";
  event.code = 200;
  event.was_cut = true;
  EXPECT_TRUE(always_told(event, false, seconds(1)));
}

}  // namespace
}  // namespace kintsugi::proxy
