#include "kinds/policies/webhooks/webhook_calls.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "kinds/policies/webhooks/internal/webhook.h"

namespace kintsugi::kinds {
namespace {

/// Questions to a URL that is not allowed: each is answered in a later turn, so that nothing ends
/// before the loop runs. A body is made when its question is sent.
class WebhookCallsTest : public ::testing::Test {
 protected:
  struct Asked {
    bool sent = false;
    std::string answer;
  };
  using AskedPtr = std::shared_ptr<Asked>;

  static WebhookPtr webhook() {
    return std::make_shared<const Webhook>(
        "c", false,
        *krm::Json::parse(R"({"name":"a.b.c","timeoutSeconds":30,"failurePolicy":"Fail",)"
                          R"("matchPolicy":"Equivalent","sideEffects":"None","rules":[],)"
                          R"("admissionReviewVersions":["v1"],)"
                          R"("clientConfig":{"url":"https://127.0.0.1:1/"}})"));
  }
  AskedPtr ask(std::string cluster, std::size_t bytes = 1) {
    auto asked = std::make_shared<Asked>();
    WebhookCalls::Question question;
    question.cluster = std::move(cluster);
    question.webhook = webhook_;
    question.uid = "u1";
    question.time_left = seconds(30);
    question.body = [asked, bytes] {
      asked->sent = true;
      return std::string(bytes, 'x');
    };
    calls_.ask(std::move(question), [this, asked](Expected<std::string> answer) {
      EXPECT_EQ(asked->answer, "");
      asked->answer = answer ? *answer : std::string(answer.error().message());
      if (++answered_ == wanted_) {
        loop_.stop();
      }
    });
    all_.push_back(asked);
    return asked;
  }
  [[nodiscard]] std::size_t sent() const {
    std::size_t out = 0;
    for (const AskedPtr& one : all_) {
      out += one->sent ? 1 : 0;
    }
    return out;
  }
  void run_until_all_are_answered() {
    wanted_ = all_.size();
    loop_.run();
  }

  net::Loop loop_{"webhooks"};
  WebhookCalls calls_{loop_, nullptr};
  const WebhookPtr webhook_ = webhook();
  std::vector<AskedPtr> all_;
  std::size_t answered_ = 0, wanted_ = 0;
};

TEST_F(WebhookCallsTest, WhenAClusterAsksMuch_AM334_EightAreSentAndOthersAreNotHeldUp) {
  for (std::size_t i = 0; i < 20; ++i) {
    ask("one");
  }
  EXPECT_EQ(sent(), WebhookCalls::kMostOfCluster);
  EXPECT_EQ(WebhookCalls::kMostOfCluster, 8U);
  EXPECT_TRUE(ask("two")->sent);
  run_until_all_are_answered();
  EXPECT_EQ(sent(), 21U);
}

TEST_F(WebhookCallsTest, WhenManyClustersAsk_AM334_256AreSentAnd1024Wait) {
  for (std::size_t i = 0; i < 256; ++i) {
    EXPECT_TRUE(ask("lc-" + std::to_string(i))->sent);
  }
  for (std::size_t i = 0; i < 1'024; ++i) {
    EXPECT_FALSE(ask("lc-" + std::to_string(i))->sent);
  }
  EXPECT_EQ(sent(), 256U);
  const AskedPtr beyond = ask("other");
  run_until_all_are_answered();
  EXPECT_FALSE(beyond->sent);
  EXPECT_EQ(beyond->answer, net::kNotReached);
  EXPECT_EQ(sent(), 256U + 1'024U);
  for (std::size_t i = 0; i + 1 < all_.size(); ++i) {
    EXPECT_EQ(all_[i]->answer, net::kUrlNotAllowed) << i;
  }
  EXPECT_TRUE(ask("other")->sent) << "there is room again";
  run_until_all_are_answered();
}

TEST_F(WebhookCallsTest, WhenQuestionsAreLarge_AM334_128MiBOfThemAreSent) {
  constexpr std::size_t kHalf = WebhookCalls::kMostBytes / 2;
  EXPECT_EQ(kHalf, 64U << 20U);
  EXPECT_TRUE(ask("one", kHalf)->sent);
  EXPECT_TRUE(ask("two", kHalf - 1)->sent);
  EXPECT_TRUE(ask("three", 1)->sent);
  EXPECT_FALSE(ask("four", 1)->sent);
  run_until_all_are_answered();
  EXPECT_EQ(sent(), 4U);
}

}  // namespace
}  // namespace kintsugi::kinds
