#include "workers/runtime/status/fault_rules.h"

#include <gtest/gtest.h>

#include <string>

namespace kintsugi::workers {
namespace {

std::string told(const Answer& answer, double jitter = 0) {
  const FaultRule rule = fault_rule(answer, jitter);
  std::string out = reaction_name(rule.reaction);
  if (rule.wait != Duration::zero()) {
    out += " " + std::to_string(rule.wait / milliseconds(1)) + "ms";
  }
  return out + (rule.counts_as_error ? " error" : "");
}

struct Row {
  Answer answer;
  const char* expected;
};

TEST(FaultRules, S13_ByRow) {
  using K = RequestKind;
  const auto http = [](int status, K kind = K::kUpdate, int in_a_row = 0) {
    return Answer{.http_status = status, .kind = kind, .in_a_row = in_a_row};
  };
  const auto none = [](Errc cause, K kind) { return Answer{.cause = cause, .kind = kind}; };
  const Row rows[] = {
      {http(200), "ok"},
      {http(201, K::kCreate), "ok"},
      {Answer{}, "ok"},
      {http(409), "again-at-once"},
      {http(409, K::kUpdate, 1), "back-off error"},
      {http(409, K::kCreate), "again-at-once"},
      {http(429), "back-off error"},
      {http(503), "back-off error"},
      {http(500, K::kRead), "back-off error"},
      {http(500, K::kCreate), "read-back error"},
      {http(502, K::kCreate), "read-back error"},
      {http(504, K::kAppend), "read-back error"},
      {http(504, K::kUpdate), "back-off error"},
      {http(502, K::kDelete), "back-off error"},
      {none(Errc::kDeadline, K::kCreate), "read-back error"},
      {none(Errc::kReset, K::kCreate), "read-back error"},
      {none(Errc::kDeadline, K::kUpdate), "back-off error"},
      {none(Errc::kRefused, K::kCreate), "back-off error"},
      {none(Errc::kNotProcessed, K::kCreate), "back-off error"},
      {none(Errc::kDeadline, K::kRead), "back-off error"},
      {http(401), "reload-credential"},
      {http(401, K::kUpdate, 1), "unauthorized 30000ms error"},
      {http(403), "forbidden error"},
      {http(404), "forget"},
      {http(404, K::kRead), "forget"},
      {http(404, K::kDelete), "ok"},
      {http(404, K::kCreate), "back-off error"},
      {http(410, K::kRead), "relist error"},
      {http(413), "terminal error"},
      {http(422), "terminal error"},
      {http(400), "back-off error"},
      {http(302), "back-off error"},
  };
  for (const Row& row : rows) {
    EXPECT_EQ(told(row.answer), row.expected)
        << row.answer.http_status << " " << errc_name(row.answer.cause) << " kind "
        << static_cast<int>(row.answer.kind);
  }
}

TEST(FaultRules, S13_RetryAfterIsWaitedForExactly_Plus20PercentAtMost) {
  for (const int status : {429, 503}) {
    Answer answer{.http_status = status, .has_retry_after = true, .retry_after = seconds(3)};
    EXPECT_EQ(told(answer, 0), "wait 3000ms");
    EXPECT_EQ(told(answer, 0.5), "wait 3300ms");
    EXPECT_EQ(told(answer, 1), "wait 3600ms");
    EXPECT_EQ(told(answer, 7), "wait 3600ms");
    answer.in_a_row = 3;
    EXPECT_EQ(told(answer), "wait 3000ms");
    answer.in_a_row = 4;  // the fifth
    EXPECT_EQ(told(answer), "wait 3000ms error");
    answer.retry_after = Duration::max();
    EXPECT_EQ(fault_rule(answer, 0).wait, kLongestRetryAfter);
    answer.retry_after = Duration::zero();
    EXPECT_EQ(fault_rule(answer, 0).reaction, Reaction::kWait);
  }
}

}  // namespace
}  // namespace kintsugi::workers
