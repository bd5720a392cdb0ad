#pragma once

#include <cstddef>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "base/alive.h"
#include "base/error.h"
#include "base/strings.h"
#include "base/time.h"
#include "kinds/policies/webhooks/internal/webhook.h"
#include "net/loop.h"
#include "net/outgoing.h"

namespace kintsugi::kinds {

/// The requests to admission webhooks of one loop, by the client for what tenants name
/// (net/outgoing.h). At most kMostAtOnce at once, 8 of a logical cluster, with bodies of kMostBytes
/// together; others wait, up to kMostWaiting. An answer has kMostAnswer bytes at most. Threads: its
/// loop; nothing blocks.
class WebhookCalls {
 public:
  static constexpr std::size_t kMostAtOnce = 256, kMostOfCluster = 8, kMostWaiting = 1'024;
  static constexpr std::size_t kMostBytes = 128U
                                            << 20;  ///< of questions; one more may begin below it
  static constexpr std::size_t kMostAnswer = 1U << 20;  ///< SE-107

  /// @param policy  null: the defaults.
  WebhookCalls(net::Loop& loop, const std::shared_ptr<const net::OutgoingPolicy>& policy)
      : loop_(loop), outgoing_(loop, policy == nullptr ? net::OutgoingPolicy() : *policy) {}
  ~WebhookCalls();
  WebhookCalls(const WebhookCalls&) = delete;
  WebhookCalls& operator=(const WebhookCalls&) = delete;

  struct Question {
    std::string cluster;  ///< of the request, which is charged
    WebhookPtr webhook;
    std::string uid;                    ///< of the review, which an answer repeats
    std::function<std::string()> body;  ///< made when it is sent
    Duration time_left{};               ///< of the request
  };
  /// `done` comes in a later turn, or never when this dies before, with the answer's body.
  /// @error with one of the texts of net/outgoing.h, or that it names a Service.
  void ask(Question question, std::function<void(Expected<std::string>)> done);

 private:
  struct Job;
  using JobPtr = std::shared_ptr<Job>;
  void pump();
  void send(const JobPtr& job);
  void finish(const JobPtr& job, Expected<std::string> result);

  net::Loop& loop_;
  net::Outgoing outgoing_;
  std::deque<JobPtr> waiting_;
  std::map<Job*, JobPtr> running_;
  StringMap<std::size_t> of_cluster_;  // running
  std::size_t bytes_ = 0;              // of bodies that are sent
  Alive alive_;
};

}  // namespace kintsugi::kinds
