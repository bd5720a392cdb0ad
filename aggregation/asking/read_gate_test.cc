#include "aggregation/asking/read_gate.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <random>
#include <thread>
#include <vector>

namespace kintsugi::aggregation {
namespace {

using Answer = ReadGate::Answer;
using TicketPtr = std::unique_ptr<ReadGate::Ticket>;

/// A loop that does what was posted to it.
struct Turns {
  net::Loop loop{"test"};
  void run() {
    loop.post([this] { loop.stop(); });
    loop.run();
  }
};

struct Lists : Turns {
  explicit Lists(std::size_t streams) : gate(ReadGate::for_lists(streams)) {}
  ReadGate gate;
  std::vector<int> ran;
  TicketPtr come(std::size_t streams, int number) {
    return come(streams, number, "payer-" + std::to_string(number));
  }
  TicketPtr come(std::size_t streams, int number, const std::string& who) {
    return gate.enter(loop, {.identity = who, .amount = streams}, seconds(600),
                      [this, number](Answer answer) {
                        EXPECT_EQ(answer, Answer::kGo);
                        ran.push_back(number);
                      });
  }
};

TEST(ReadGate, SE005_OnePayersListsHaveAQuarterOfTheStreams) {
  Lists lists(16);
  std::vector<TicketPtr> heavy;
  for (int i = 0; i < 10; ++i) {
    heavy.push_back(lists.come(2, i, "heavy"));
    EXPECT_EQ(heavy.back()->may_go(), i < 2) << i;
  }
  const TicketPtr light = lists.come(4, 100, "light");
  EXPECT_TRUE(light->may_go());
  const TicketPtr wide = lists.come(6, 101, "wide");
  EXPECT_TRUE(wide->may_go()) << "one that takes more goes as long as it is his only one";
  EXPECT_FALSE(lists.come(1, 102, "wide")->may_go());
  heavy[0].reset();
  lists.run();
  EXPECT_EQ(lists.ran, (std::vector<int>{2})) << "his next one";
}

TEST(ReadGate, SE005_WhoHasLeastInsideGoesNext) {
  Lists lists(8);
  std::vector<TicketPtr> inside;
  for (int i = 0; i < 8; ++i) {
    inside.push_back(lists.come(1, i, "payer-" + std::to_string(i / 2)));
    ASSERT_TRUE(inside.back()->may_go());
  }
  const TicketPtr first = lists.come(1, 10, "payer-0"), second = lists.come(1, 11, "payer-1"),
                  other = lists.come(1, 12, "other"), third = lists.come(1, 13, "third");
  inside[0].reset();
  lists.run();
  EXPECT_EQ(lists.ran, (std::vector<int>{12})) << "he has none, although he came last but one";
  inside[4].reset();
  lists.run();
  EXPECT_EQ(lists.ran, (std::vector<int>{12, 13}));
  inside[6].reset();
  lists.run();
  EXPECT_EQ(lists.ran, (std::vector<int>{12, 13, 10})) << "he has one, payer-1 two";
  inside[2].reset();
  lists.run();
  EXPECT_EQ(lists.ran, (std::vector<int>{12, 13, 10, 11}));
}

TEST(ReadGate, WhenFull_AGG601_WholeListsWaitInOrder) {
  Lists lists(4);
  TicketPtr first = lists.come(3, 1);
  ASSERT_TRUE(first->may_go());
  TicketPtr second = lists.come(3, 2);
  TicketPtr third = lists.come(1, 3);
  EXPECT_FALSE(second->may_go());
  EXPECT_FALSE(third->may_go());  // it would fit, but others were here before
  lists.run();
  EXPECT_TRUE(lists.ran.empty());
  first.reset();
  EXPECT_TRUE(lists.ran.empty());  // not inside of somebody else's call
  lists.run();
  EXPECT_EQ(lists.ran, (std::vector<int>{2, 3}));
  second.reset();
  third.reset();
  EXPECT_TRUE(lists.come(4, 4)->may_go());
}

TEST(ReadGate, WhenAListGoesWhileItWaitsOrIsToldToRun_NothingIsLost) {
  Lists lists(2);
  TicketPtr first = lists.come(2, 1);
  TicketPtr second = lists.come(2, 2);
  TicketPtr third = lists.come(2, 3);
  third.reset();
  first.reset();
  second.reset();  // let in, not yet told
  lists.run();
  EXPECT_TRUE(lists.ran.empty());
  EXPECT_TRUE(lists.come(2, 4)->may_go());
}

TEST(ReadGate, SE091_WhileMemoryIsShort_AnEighthRunsAndTheOthersWait) {
  Lists lists(16);
  TicketPtr before = lists.come(4, 1);
  lists.gate.tighten(true);
  TicketPtr second = lists.come(1, 2), third = lists.come(2, 3), fourth = lists.come(1, 4);
  EXPECT_FALSE(second->may_go()) << "who runs already has more than an eighth";
  before.reset();
  lists.run();
  EXPECT_EQ(lists.ran, (std::vector<int>{2})) << "two more would be three";
  second.reset();
  lists.run();
  EXPECT_EQ(lists.ran, (std::vector<int>{2, 3}));
  lists.gate.tighten(false);
  lists.run();
  EXPECT_EQ(lists.ran, (std::vector<int>{2, 3, 4})) << "nobody waits for more than is needed";
}

TEST(ReadGate, WhenAListNeedsMoreThanThereIs_RunsAlone) {
  Lists lists(2);
  TicketPtr large = lists.come(5, 1);
  EXPECT_TRUE(large->may_go());
  EXPECT_FALSE(lists.come(1, 2)->may_go());
}

TEST(ReadGate, WhenWhoWaitsFirstGivesUp_ThoseBehindAreLetIn) {
  Lists lists(2);
  const TicketPtr first = lists.come(1, 1);
  TicketPtr large = lists.come(2, 2);
  const TicketPtr small = lists.come(1, 3);
  EXPECT_FALSE(small->may_go());
  large.reset();
  lists.run();
  EXPECT_EQ(lists.ran, (std::vector<int>{3}));
}

TEST(ReadGate, WhenTooManyListsWait_TheNextIsRefused) {
  Lists lists(1);
  std::vector<TicketPtr> tickets;
  for (int i = 0; i < 1 + 1'024; ++i) {
    tickets.push_back(lists.come(1, i));
    ASSERT_NE(tickets.back(), nullptr);
  }
  EXPECT_EQ(lists.come(1, 0), nullptr);
}

struct Crowd : Turns {
  ReadGate gate{ReadGate::for_initial_events()};
  std::vector<TicketPtr> tickets;
  int inside = 0, turned_away = 0;

  void come(const std::string& scope, const std::string& who, Duration patience = seconds(600)) {
    tickets.push_back(gate.enter(loop, {scope, who}, patience, [this](Answer answer) {
      ++(answer == Answer::kGo ? inside : turned_away);
    }));
    if (tickets.back() == nullptr) {
      ++turned_away;
    } else if (tickets.back()->may_go()) {
      ++inside;
    }
  }
};

TEST(ReadGate, WhenOneIdentityComesOften_T109_OthersStillFindAPlace) {
  Crowd crowd;
  for (int i = 0; i < 12; ++i) {
    crowd.come("maps", "alice");
  }
  EXPECT_EQ(crowd.inside, 8);
  for (int i = 0; i < 12; ++i) {
    crowd.come("maps", "bob");
  }
  EXPECT_EQ(crowd.inside, 16);
  crowd.come("secrets", "alice");
  EXPECT_EQ(crowd.inside, 17);
  crowd.tickets[0].reset();  // one of alice's ends: her next one goes
  crowd.run();
  EXPECT_EQ(crowd.inside, 18);
  crowd.tickets[9].reset();  // one that waited gives up
  crowd.run();
  EXPECT_EQ(crowd.inside, 18);
  EXPECT_EQ(crowd.turned_away, 0);
}

TEST(ReadGate, WhenTheLineIsFull_T109_TheRestIsTurnedAwayAtOnce) {
  Crowd crowd;
  for (int i = 0; i < 300; ++i) {
    crowd.come("maps", std::to_string(i));
  }
  EXPECT_EQ(crowd.inside, 16);
  EXPECT_EQ(crowd.turned_away, 300 - 16 - 256);
  for (std::size_t i = 0; i < crowd.tickets.size(); ++i) {
    crowd.tickets[i].reset();
    if (i % 4 == 3) {
      crowd.run();
    }
  }
  EXPECT_EQ(crowd.inside, 16 + 256);
}

TEST(ReadGate, WhenAllLeaveTogether_T86_NobodyOfThemIsLetIn) {
  Crowd crowd;
  for (int i = 0; i < 200; ++i) {
    crowd.come("maps", "alice");
  }
  for (TicketPtr& ticket : crowd.tickets) {
    ticket.reset();
  }
  crowd.run();
  EXPECT_EQ(crowd.inside, 8);
  crowd.come("maps", "alice");
  EXPECT_EQ(crowd.inside, 9);
}

TEST(ReadGate, WhenPatienceEnds_AGG804_TheVisitorIsTurnedAwayOnceAndTheLineMovesOn) {
  Turns turns;
  ReadGate gate({.at_once = 2, .of_identity = 0, .waiting = 8});
  const auto nobody = [](Answer) { FAIL(); };
  const TicketPtr first = gate.enter(turns.loop, {.amount = 1}, seconds(600), nobody);
  TicketPtr hasty;
  bool let_in = false;
  hasty = gate.enter(turns.loop, {.amount = 2}, milliseconds(1), [&](Answer answer) {
    EXPECT_EQ(answer, Answer::kTurnedAway);
    hasty.reset();  // as those do who are refused
  });
  const TicketPtr patient = gate.enter(turns.loop, {.amount = 1}, seconds(600), [&](Answer answer) {
    EXPECT_EQ(answer, Answer::kGo);
    let_in = true;
    turns.loop.stop();
  });
  turns.loop.run();
  EXPECT_TRUE(let_in);
  EXPECT_EQ(hasty, nullptr);
}

TEST(ReadGate, WhenTheGateOrALoopsTurnsEndFirst_TicketsStillGiveBack) {
  Turns asleep, awake;  // the first never has a turn again
  auto gate = std::make_unique<ReadGate>(ReadGate::Limits{1, 0, 8});
  TicketPtr first = gate->enter(awake.loop, {}, seconds(600), [](Answer) { FAIL(); });
  TicketPtr second = gate->enter(asleep.loop, {}, seconds(600), [](Answer) { FAIL(); });
  bool let_in = false;
  const TicketPtr third = gate->enter(awake.loop, {}, seconds(600), [&](Answer) { let_in = true; });
  gate.reset();
  first.reset();   // the place is the sleeper's, which hears nothing of that
  second.reset();  // and whose watch ends with its loop
  awake.run();
  EXPECT_TRUE(let_in);
}

/// A loop in a thread of its own, whose visitors come one after another or leave early.
class Visits {
 public:
  Visits(ReadGate& gate, std::atomic<int>& inside, std::atomic<int>& most, std::string who,
         unsigned seed)
      : gate_(gate), inside_(inside), most_(most), who_(std::move(who)), random_(seed) {
    loop_.post([this] { turn(); });
    thread_ = std::thread([this] { loop_.run(); });
  }
  ~Visits() { thread_.join(); }
  Visits(const Visits&) = delete;
  Visits& operator=(const Visits&) = delete;

 private:
  struct Visit {
    TicketPtr ticket;
    bool inside = false;
  };

  void go_in(const std::shared_ptr<Visit>& visit) {
    EXPECT_FALSE(std::exchange(visit->inside, true));
    const int now = ++inside_;
    int seen = most_;
    while (now > seen && !most_.compare_exchange_weak(seen, now)) {
    }
  }
  void leave(std::size_t which) {
    inside_ -= visits_[which]->inside ? 1 : 0;
    visits_[which]->ticket.reset();
    visits_.erase(visits_.begin() + static_cast<std::ptrdiff_t>(which));
  }
  void turn() {
    if (++turns_ > 3'000) {
      while (!visits_.empty()) {
        leave(visits_.size() - 1);
      }
      loop_.stop();
      return;
    }
    if (visits_.size() < 20 && random_() % 2 == 0) {
      const auto visit = std::make_shared<Visit>();
      visit->ticket =
          gate_.enter(loop_, {"maps", who_}, random_() % 4 == 0 ? milliseconds(1) : seconds(600),
                      [this, weak = std::weak_ptr<Visit>(visit)](Answer answer) {
                        if (answer == Answer::kGo) {
                          go_in(weak.lock());
                        }
                      });
      if (visit->ticket != nullptr && visit->ticket->may_go()) {
        go_in(visit);
      }
      visits_.push_back(visit);
    } else if (!visits_.empty()) {
      leave(random_() % visits_.size());
    }
    loop_.post([this] { turn(); });
  }

  ReadGate& gate_;
  std::atomic<int>& inside_;
  std::atomic<int>& most_;
  const std::string who_;
  std::mt19937 random_;
  net::Loop loop_{"visits"};
  std::vector<std::shared_ptr<Visit>> visits_;
  int turns_ = 0;
  std::thread thread_;
};

TEST(ReadGate, WhenLoopsOfSeveralThreadsCome_AGG804_AllOfThemAreCounted) {
  ReadGate gate({.at_once = 7, .of_identity = 4, .waiting = 24});
  std::atomic<int> of_alice = 0, of_bob = 0, most_of_alice = 0, most_of_bob = 0;
  {
    const Visits first(gate, of_alice, most_of_alice, "alice", 1);
    const Visits second(gate, of_alice, most_of_alice, "alice", 2);
    const Visits third(gate, of_bob, most_of_bob, "bob", 3);
  }
  EXPECT_EQ(most_of_alice, 4);
  EXPECT_LE(most_of_bob, 4);
  EXPECT_GE(most_of_bob, 3);  // what is left of seven
  Turns after;
  std::vector<TicketPtr> tickets;
  for (int i = 0; i < 7; ++i) {  // every place was given back
    tickets.push_back(
        gate.enter(after.loop, {"maps", std::to_string(i)}, seconds(600), [](Answer) {}));
    EXPECT_TRUE(tickets.back()->may_go());
  }
  EXPECT_FALSE(gate.enter(after.loop, {"maps", "x"}, seconds(600), [](Answer) {})->may_go());
}

TEST(ReadGate, WhenAPlaceIsFreedOnAnotherLoop_AGG804_TheWaiterIsToldOnItsOwn) {
  ReadGate gate({.at_once = 1, .of_identity = 0, .waiting = 8});
  Turns here;
  TicketPtr mine = gate.enter(here.loop, {}, seconds(600), [](Answer) { FAIL(); });
  ASSERT_TRUE(mine->may_go());
  net::Loop there("there");
  std::thread::id told;
  std::atomic<bool> waits = false;
  std::thread thread([&] {
    TicketPtr theirs;
    there.post([&] {
      theirs = gate.enter(there, {}, seconds(600), [&](Answer) {
        told = std::this_thread::get_id();
        there.stop();
      });
      EXPECT_FALSE(theirs->may_go());
      waits = true;
      waits.notify_one();
    });
    there.run();
    theirs.reset();
  });
  waits.wait(false);
  mine.reset();
  const std::thread::id other = thread.get_id();
  thread.join();
  EXPECT_EQ(told, other);
}

}  // namespace
}  // namespace kintsugi::aggregation
