#include "controlplane/replication/replication_grace.h"

#include <gtest/gtest.h>

#include "apiserver/testing/controller_server.h"
#include "krm/status.h"

namespace kintsugi::controlplane {
namespace {

using krm::Json;

class ReplicationGraceTest : public apiserver::ControllerTest {
 protected:
  /// Asks for admission of an object; nullopt until there is an answer.
  void ask(bool may_be_late) {
    admit_ = grace_.around(
        [this](const apiserver::WriteContext&, const Json*, const Json*,
               apiserver::Hooks::AdmitDone done) {
          ++asked_;
          if (asked_ > refusals_) {
            done({});
          } else {
            done(fail(code_ == Errc::kForbidden ? krm::forbidden("g", "r", "n", "no")
                                                : Error(code_)));
          }
        },
        [may_be_late](const apiserver::WriteContext&, const Json&) { return may_be_late; });
    admit_(context_, &object_, nullptr, [this](Expected<void> result) {
      ++answers_;
      allowed_ = result.has_value();
      error_ = result ? Error(Errc::kOk) : result.error().clone();
    });
  }

  auth::UserInfo user_;
  std::vector<std::string> warnings_;
  apiserver::WriteContext context_{user_, "c", "create", "", false, server_, warnings_};
  const Json object_ = Json::object();
  bool complete_ = true;
  ReplicationGrace grace_{loop_, [this] { return complete_; }};
  ReplicationGrace::Admit admit_;
  int refusals_ = 0, asked_ = 0, answers_ = 0;
  Errc code_ = Errc::kForbidden;
  bool allowed_ = false;
  Error error_{Errc::kOk};
};

TEST_F(ReplicationGraceTest, WhenTheCopyComesLate_IsAllowed) {
  refusals_ = 3;
  ask(true);
  EXPECT_EQ(answers_, 0);
  server_.run_until([&] { return answers_ > 0; });
  EXPECT_TRUE(allowed_);
  EXPECT_EQ(asked_, 4);
}

TEST_F(ReplicationGraceTest, WhenItNeverComes_IsRefusedOnce) {
  refusals_ = 1000;
  ask(true);
  server_.run_until([&] { return answers_ > 0; });
  EXPECT_EQ(error_.code(), Errc::kForbidden);
  EXPECT_EQ(asked_, ReplicationGrace::kTries);
}

TEST_F(ReplicationGraceTest, WhenNotAllHasBeenRead_KK005_ItIsUnavailableInsteadOfRefused) {
  complete_ = false;
  refusals_ = 1000;
  ask(true);
  complete_ = true;  // too late: what was listed may not be stored yet
  server_.run_until([&] { return answers_ > 0; });
  EXPECT_EQ(error_.code(), Errc::kUnavailable);
  EXPECT_EQ(error_.detail().retry_after_seconds, 1);
  complete_ = false;
  refusals_ = asked_ + 3;
  answers_ = 0;
  ask(true);
  server_.run_until([&] { return answers_ > 0; });
  EXPECT_TRUE(allowed_) << "what is known is known";
  refusals_ = 1000;
  answers_ = 0;
  ask(false);
  EXPECT_EQ(answers_, 1);
  EXPECT_EQ(error_.code(), Errc::kForbidden) << "of this shard all is known";
}

TEST_F(ReplicationGraceTest, WhenNothingCanBeLate_IsRefusedAtOnce) {
  refusals_ = 1000;
  ask(false);
  EXPECT_EQ(answers_, 1);
  EXPECT_FALSE(allowed_);
  EXPECT_EQ(asked_, 1);
}

TEST_F(ReplicationGraceTest, WhenItIsNotARefusal_IsAnsweredAtOnce) {
  refusals_ = 1000;
  code_ = Errc::kInvalid;
  ask(true);
  EXPECT_EQ(answers_, 1);
  EXPECT_EQ(asked_, 1);
}

TEST_F(ReplicationGraceTest, WhenStopped_NobodyIsAskedAgain) {
  refusals_ = 1000;
  ask(true);
  grace_.stop();
  int turns = 0;
  server_.run_until([&] { return ++turns > 200; });
  EXPECT_EQ(asked_, 1);
  EXPECT_EQ(answers_, 0);
}

}  // namespace
}  // namespace kintsugi::controlplane
