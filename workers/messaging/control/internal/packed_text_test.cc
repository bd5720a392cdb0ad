#include "workers/messaging/control/internal/packed_text.h"

#include <gtest/gtest.h>

#include <random>
#include <string>

namespace kintsugi::workers {
namespace {

constexpr std::string_view kReady =
    R"({"brokerAddress":"space1-dlm6rsrfw2iid/a1500","brokers":[{"host":"b0","state":"Active"}],)"
    R"("conditions":[{"lastTransitionTime":"2026-01-27T12:32:49Z","message":"",)"
    R"("observedGeneration":1,"reason":"Found","status":"True","type":"FoundSpace"},)"
    R"({"lastTransitionTime":"2026-01-27T12:32:49Z","message":"","observedGeneration":1,)"
    R"("reason":"Validated","status":"True","type":"Validated"},)"
    R"({"lastTransitionTime":"2026-01-27T12:32:49Z","message":"","observedGeneration":1,)"
    R"("reason":"Scheduled","status":"True","type":"Scheduled"},)"
    R"({"lastTransitionTime":"2026-01-27T12:32:50Z","message":"","observedGeneration":1,)"
    R"("reason":"Created","status":"True","type":"Created"},)"
    R"({"lastTransitionTime":"2026-01-27T12:32:51Z","message":"","observedGeneration":1,)"
    R"("reason":"Ready","status":"True","type":"Ready"}],)"
    R"("configuration":"0123456789abcdef0123456789abcdef","isReady":true,"messages":[],)"
    R"("observedGeneration":1,"phase":"Active","planStatus":{"partitions":1},)"
    R"("spaceId":"space1-dlm6rsrfw2iid","type":"queue"})";

TEST(PackedText, MS_065_AStatusTakesAQuarterAndComesBack) {
  const std::string packed = pack_text(kReady);
  EXPECT_LT(packed.size(), kReady.size() / 4) << packed.size() << " of " << kReady.size();
  EXPECT_EQ(unpack_text(packed), kReady);
}

TEST(PackedText, MS_065_AnyTextComesBack) {
  for (const std::string_view text :
       {std::string_view(), std::string_view("{}"), std::string_view("\x01\x1D\x1E\x1F"),
        std::string_view("{\"a\":\"\x1F\"}"), std::string_view("\0\0", 2),
        std::string_view("2026-01-27T12:32:49Z2026-01-27T12:32:49Z2026-01-27T12:32:4"),
        std::string_view("{\"brokerAddress\":")}) {
    EXPECT_EQ(unpack_text(pack_text(text)), text);
  }
}

TEST(PackedText, MS_065_AnyCutAndMixOfAStatusComesBack) {
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  const auto pick = [&random](std::size_t most) {
    return std::uniform_int_distribution<std::size_t>(0, most)(random);
  };
  for (int i = 0; i < 2'000; ++i) {
    std::string text;
    for (std::size_t parts = pick(4); parts > 0; --parts) {
      const std::size_t at = pick(kReady.size() - 1);
      text.append(kReady.substr(at, pick(200)));
      if (pick(3) == 0) {
        text.push_back(static_cast<char>(pick(255)));
      }
    }
    ASSERT_EQ(unpack_text(pack_text(text)), text);
  }
}

}  // namespace
}  // namespace kintsugi::workers
