#include "aggregation/rights/internal/review_book.h"

#include <gtest/gtest.h>

#include <functional>
#include <list>
#include <string>
#include <vector>

namespace kintsugi::aggregation {
namespace {

const ReviewServer kA{1, ""};
const ReviewServer kB{2, ""};
const TimePoint kStart{std::chrono::hours(1)};

struct Watcher final : ReviewBook::Follower {
  void on_right(Right now, std::string_view why) noexcept override {
    right = now;
    reason = why;
    ++told;
    if (then) {
      then();
    }
  }
  Right right = Right::kUnknown;
  std::string reason;
  int told = 0;
  std::function<void()> then;
};

class ReviewBooks : public ::testing::Test {
 protected:
  ReviewBook::Known follow(Watcher& who, const std::string& body, const ReviewServer& at = kA) {
    ReviewBook::Known known = book_.follow(at, body, who, now_);
    if (known.right != Right::kUnknown) {
      who.right = known.right;
    }
    return known;
  }
  /// Answers everything that is asked; the bodies that were.
  std::vector<std::string> answer(std::optional<bool> allowed) {
    std::vector<std::string> asked;
    while (const auto question = book_.next()) {
      asked.push_back(question->body);
      book_.answer(question->key, allowed, "because", now_);
    }
    return asked;
  }
  std::vector<std::string> after(Duration wait, std::optional<bool> allowed) {
    now_ += wait;
    book_.tick(now_);
    return answer(allowed);
  }

  using Asked = std::vector<std::string>;
  ReviewBook::Limits limits_{};
  ReviewBook book_{limits_};
  TimePoint now_ = kStart;
};

TEST_F(ReviewBooks, WhenManyAskTheSame_T103_OneReviewAnswersThem) {
  Watcher one, two, late, other;
  EXPECT_EQ(follow(one, "q").right, Right::kUnknown);
  EXPECT_EQ(follow(two, "q").right, Right::kUnknown);
  EXPECT_EQ(answer(true), Asked{"q"});
  EXPECT_EQ(one.right, Right::kAllowed);
  EXPECT_EQ(two.right, Right::kAllowed);
  EXPECT_EQ(two.reason, "because");
  now_ += seconds(9);
  EXPECT_EQ(follow(late, "q").right, Right::kAllowed);
  EXPECT_EQ(late.told, 0);
  EXPECT_EQ(follow(other, "q", kB).right, Right::kUnknown);  // another server, another question
  EXPECT_EQ(answer(false), Asked{"q"});
  EXPECT_EQ(other.right, Right::kDenied);
  EXPECT_EQ(late.right, Right::kAllowed);
}

TEST_F(ReviewBooks, WhenAnAnswerIsOld_T103_ItIsAskedAgain) {
  Watcher one, two, three;
  const auto ticket = follow(one, "q").ticket;
  EXPECT_EQ(answer(false), Asked{"q"});
  book_.unfollow(ticket);
  now_ += limits_.fresh - milliseconds(1);
  EXPECT_EQ(follow(two, "q").right, Right::kDenied);
  now_ += milliseconds(1);
  EXPECT_EQ(follow(three, "q").right, Right::kUnknown);
  EXPECT_EQ(answer(true), Asked{"q"});
  EXPECT_EQ(two.right, Right::kAllowed);
  EXPECT_EQ(three.right, Right::kAllowed);
}

TEST_F(ReviewBooks, WhenItIsFollowed_T103_ItIsCheckedOncePerInterval) {
  Watcher one, two;
  const auto first = follow(one, "q").ticket;
  const auto second = follow(two, "q").ticket;
  answer(true);
  EXPECT_GE(book_.due(), now_ + limits_.recheck * 4 / 5);
  EXPECT_LE(book_.due(), now_ + limits_.recheck * 6 / 5);
  EXPECT_EQ(after(limits_.recheck * 4 / 5 - milliseconds(1), true), Asked{});
  EXPECT_EQ(after(limits_.recheck * 2 / 5 + milliseconds(2), false), Asked{"q"});
  EXPECT_EQ(one.right, Right::kDenied);
  EXPECT_EQ(two.right, Right::kDenied);
  EXPECT_EQ(one.told, 2);
  book_.unfollow(first);
  EXPECT_NE(book_.due(), TimePoint::max());
  book_.unfollow(second);
  EXPECT_EQ(book_.due(), TimePoint::max());
  EXPECT_EQ(after(limits_.recheck * 2, true), Asked{});
}

TEST_F(ReviewBooks, WhenNobodyAnswers_T103_WhoWasAllowedHasAGraceAndNobodyElse) {
  Watcher old, fresh;
  follow(old, "q");
  answer(true);
  after(limits_.recheck * 2, std::nullopt);
  EXPECT_EQ(old.right, Right::kAllowed);
  const TimePoint since = now_;
  follow(fresh, "q");  // what was known is not good enough for those who begin
  EXPECT_EQ(answer(std::nullopt), Asked{"q"});
  EXPECT_EQ(fresh.right, Right::kUnavailable);
  while (now_ + seconds(5) < since + limits_.grace) {
    EXPECT_EQ(after(seconds(5), std::nullopt), Asked{"q"});
    EXPECT_EQ(old.right, Right::kAllowed);
  }
  after(seconds(5), std::nullopt);
  EXPECT_EQ(old.right, Right::kUnavailable);
  after(seconds(5), true);
  EXPECT_EQ(fresh.right, Right::kAllowed);
}

TEST_F(ReviewBooks, WhenAnswersComeBack_T103_TheGraceBeginsAnew) {
  Watcher one;
  follow(one, "q");
  answer(true);
  after(limits_.recheck * 2, std::nullopt);
  after(limits_.grace - seconds(1), true);
  after(limits_.recheck * 2, std::nullopt);
  EXPECT_EQ(one.right, Right::kAllowed);
  EXPECT_EQ(one.told, 1);
}

TEST_F(ReviewBooks, WhenRightsMayHaveChanged_T103_ItIsAskedAtOnceAndOnceMore) {
  Watcher one, elsewhere, joins;
  follow(one, "q");
  follow(elsewhere, "q", kB);
  answer(true);
  book_.changed(kA, now_);
  EXPECT_EQ(follow(joins, "q").right, Right::kUnknown);  // nobody begins by what was known
  EXPECT_EQ(answer(true), Asked{"q"});
  EXPECT_EQ(after(limits_.soon, true), Asked{"q"});  // the server has not noticed yet
  EXPECT_EQ(one.right, Right::kAllowed);
  EXPECT_EQ(after(limits_.later, false), Asked{"q"});
  EXPECT_EQ(one.right, Right::kDenied);
  EXPECT_EQ(elsewhere.told, 1);
  EXPECT_EQ(after(seconds(5), true), Asked{});
}

TEST_F(ReviewBooks, WhenRightsChangeWhileItIsAsked_T103_TheAnswerDoesNotHold) {
  Watcher one;
  follow(one, "q");
  const auto question = book_.next();
  book_.changed(kA, now_);
  now_ += limits_.soon;
  book_.tick(now_);
  book_.answer(question->key, true, "", now_);
  EXPECT_EQ(one.right, Right::kAllowed);
  EXPECT_EQ(answer(false), Asked{"q"});
  EXPECT_EQ(one.right, Right::kDenied);
}

TEST_F(ReviewBooks, WhenRightsChangeAllTheTime_ItIsNotAskedAllTheTime) {
  Watcher one;
  follow(one, "q");
  answer(true);
  std::size_t asked = 0;
  for (int i = 0; i < 500; ++i) {  // 5 s
    book_.changed(kA, now_);
    asked += after(milliseconds(10), true).size();
  }
  EXPECT_GE(asked, 8U);
  EXPECT_LE(asked, 12U);
}

TEST_F(ReviewBooks, WhenAFollowerIsTold_ItMayLetOthersGo) {
  Watcher one, two;
  follow(one, "q");
  const auto other = follow(two, "q").ticket;
  one.then = [&] { book_.unfollow(other); };
  answer(false);
  EXPECT_EQ(one.told, 1);
  EXPECT_EQ(two.told, 0);
  EXPECT_EQ(book_.followers(), 1U);
}

TEST_F(ReviewBooks, WhenThereAreMoreThanMayBeKept_TheOldestGo) {
  ReviewBook book({.entries = 100});
  Watcher kept, passing;
  (void)book.follow(kA, "kept", kept, now_);
  for (int i = 0; i < 1000; ++i) {
    const auto known = book.follow(kA, std::to_string(i), passing, now_);
    while (const auto question = book.next()) {
      book.answer(question->key, true, "", now_);
    }
    book.unfollow(known.ticket);
  }
  EXPECT_LE(book.entries(), 101U);
  EXPECT_EQ(kept.right, Right::kAllowed);
  EXPECT_EQ(book.follow(kA, "999", passing, now_).right, Right::kAllowed);
  EXPECT_EQ(book.follow(kA, "1", passing, now_).right, Right::kUnknown);
}

TEST_F(ReviewBooks, WhenAServerHangs_OthersAreAskedAndItIsNotFlooded) {
  ReviewBook book({.under_way = 4});
  std::list<Watcher> all;
  for (int i = 0; i < 20; ++i) {
    (void)book.follow(kA, std::to_string(i), all.emplace_back(), now_);
  }
  (void)book.follow(kB, "b", all.emplace_back(), now_);
  std::vector<ReviewBook::Question> asked;
  while (auto question = book.next()) {
    asked.push_back(std::move(*question));
  }
  EXPECT_EQ(asked.size(), 5U);
  EXPECT_EQ(asked.back().body, "b");
  for (const auto& one : asked) {
    book.answer(one.key, std::nullopt, "", now_);
    book.answer(one.key, true, "", now_);  // nobody waits for it any more
  }
  EXPECT_TRUE(book.next().has_value());
  EXPECT_EQ(all.back().right, Right::kUnavailable);
}

TEST_F(ReviewBooks, WhenTheAskerHasGone_NothingIsSent) {
  Watcher one;
  book_.unfollow(follow(one, "q").ticket);
  EXPECT_FALSE(book_.next().has_value());
  follow(one, "q");
  EXPECT_EQ(answer(true), Asked{"q"});
}

}  // namespace
}  // namespace kintsugi::aggregation
