// passing the same proxy again is legitimate, for ever is not: E15.
#include <gtest/gtest.h>

#include "proxy/forwarding/admission.h"
#include "proxy/testing/rig.h"

namespace kintsugi::proxy {
namespace {

using testing::Answer;
using testing::Exchange;
using testing::FakeShard;
using testing::Rig;

int status_of(const std::vector<std::string>& via) {
  Rig rig;
  rig.shard.answer = [](Exchange& exchange) { FakeShard::reply(exchange, 200, "{}"); };
  http::RequestHead head = Rig::get("/clusters/root/api");
  for (const std::string& stop : via) {
    head.headers.add("via", stop);
  }
  Answer answer;
  rig.ask(answer, head);
  const bool is_refused = answer.status == 508;
  EXPECT_EQ(rig.shard.exchanges.empty(), is_refused);
  if (is_refused) {
    EXPECT_NE(answer.body.find("proxy loop detected"), std::string::npos);
  }
  return answer.status;
}

TEST(LoopGuard, WhenARequestComesBack_FP131_ItPassesEightTimes) {
  const std::string here = "2.0 kintsugi-test";
  EXPECT_EQ(status_of({here}), 200);
  EXPECT_EQ(status_of(std::vector<std::string>(Admission::kMostPasses, here)), 200);
  EXPECT_EQ(status_of(std::vector<std::string>(Admission::kMostPasses + 1, here)), 508);
}

TEST(LoopGuard, WhenOthersStandBetween_FP131_OnlyOwnPassesCount) {
  std::string all;
  for (std::size_t pass = 0; pass < Admission::kMostPasses; ++pass) {
    all += "2.0 kintsugi-other,2.0 kintsugi-test , 1.1 kintsugi-test, 2.0 kintsugi-test-2,";
  }
  EXPECT_EQ(status_of({all}), 200);
  EXPECT_EQ(status_of({all, "1.1 x", "2.0 kintsugi-test"}), 508);
}

}  // namespace
}  // namespace kintsugi::proxy
