#include "proxy/merge/initial_gate.h"

#include <gtest/gtest.h>

#include <vector>

namespace kintsugi::proxy {
namespace {

struct Crowd {
  net::Loop loop{"test"};
  InitialGate gate;
  std::vector<std::unique_ptr<InitialGate::Ticket>> tickets;
  int gone = 0, turned_away = 0;

  void come(const std::string& scope, const std::string& who) {
    tickets.push_back(gate.enter(loop, scope, who, [this](InitialGate::Answer answer) {
      ++(answer == InitialGate::Answer::kGo ? gone : turned_away);
    }));
  }
  void leave(std::size_t number) { tickets[number].reset(); }
  void hear_everybody() {
    loop.post([this] { loop.stop(); });
    loop.run();
  }
};

TEST(InitialGate, WhenOneIdentityComesOften_T109_OthersStillFindAPlace) {
  Crowd crowd;
  for (int i = 0; i < 12; ++i) {
    crowd.come("maps", "alice");
  }
  EXPECT_EQ(crowd.gone, 8);
  for (int i = 0; i < 12; ++i) {
    crowd.come("maps", "bob");
  }
  EXPECT_EQ(crowd.gone, 16);
  crowd.come("secrets", "alice");
  EXPECT_EQ(crowd.gone, 17);
  crowd.leave(0);  // one of alice's ends: her next one goes
  crowd.hear_everybody();
  EXPECT_EQ(crowd.gone, 18);
  crowd.leave(9);  // one that waited gives up
  crowd.hear_everybody();
  EXPECT_EQ(crowd.gone, 18);
  EXPECT_EQ(crowd.turned_away, 0);
}

TEST(InitialGate, WhenTheQueueIsFull_T109_TheRestIsTurnedAwayAtOnce) {
  Crowd crowd;
  for (int i = 0; i < 300; ++i) {
    crowd.come("maps", std::to_string(i));
  }
  EXPECT_EQ(crowd.gone, 16);
  EXPECT_EQ(crowd.turned_away, 300 - 16 - 256);
  for (std::size_t i = 0; i < crowd.tickets.size(); ++i) {
    crowd.leave(i);
    if (i % 4 == 3) {
      crowd.hear_everybody();
    }
  }
  EXPECT_EQ(crowd.gone, 16 + 256);
  Crowd after;
  after.come("maps", "x");
  EXPECT_EQ(after.gone, 1);
}

TEST(InitialGate, WhenAllLeaveTogether_T86_NobodyOfThemIsLetIn) {
  Crowd crowd;
  for (int i = 0; i < 200; ++i) {
    crowd.come("maps", "alice");
  }
  for (std::size_t i = 0; i < 200; ++i) {
    crowd.leave(i);
  }
  crowd.hear_everybody();
  EXPECT_EQ(crowd.gone, 8);
  crowd.come("maps", "alice");
  EXPECT_EQ(crowd.gone, 9);
}

}  // namespace
}  // namespace kintsugi::proxy
