#include "kinds/policies/webhooks/webhook_admission.h"

#include <algorithm>
#include <deque>
#include <optional>
#include <utility>
#include <vector>

#include "kinds/policies/internal/surroundings.h"
#include "kinds/policies/webhooks/webhook_request.h"

namespace kintsugi::kinds {
namespace {

/// One write on its way through the validating webhooks: first all that are to be asked are found,
/// then they are asked.
class ValidatingRun : public std::enable_shared_from_this<ValidatingRun> {
 public:
  ValidatingRun(AdmissionSurroundings around, std::shared_ptr<WebhookRequest> request,
                std::shared_ptr<const WebhookIndex::Webhooks> webhooks,
                std::function<void(Expected<void>)> done)
      : around_(std::move(around)),
        request_(std::move(request)),
        webhooks_(std::move(webhooks)),
        done_(std::move(done)) {}

  void find_from(std::size_t first) {
    const auto invoked = [self = shared_from_this()](std::size_t i, auto invocation) {
      self->found(i, std::move(invocation));
    };
    if (request_->invoke_next(*webhooks_, first, {}, invoked)) {
      return;
    }
    verdicts_.resize(invocations_.size());
    ask();
  }

 private:
  void found(std::size_t i, Expected<std::optional<WebhookRequest::Invocation>> invocation) {
    if (!invocation) {
      done_(fail(std::move(invocation.error())));
      return;
    }
    if (*invocation) {
      invocations_.push_back(std::move(**invocation));
    }
    // In a turn of its own, as there may be many.
    around_.later([self = shared_from_this(), i] { self->find_from(i + 1); });
  }

  void ask() {
    while (next_ < invocations_.size() && running_ < WebhookCalls::kMostOfCluster) {
      const std::size_t i = next_++;
      ++running_;
      request_->ask(invocations_[i], i,
                    [self = shared_from_this(), i](WebhookRequest::Verdict verdict) {
                      self->verdicts_[i] = std::move(verdict);
                      --self->running_;
                      self->ask();
                    });
    }
    if (running_ == 0 && next_ == invocations_.size() && done_) {
      decide();
    }
  }

  void decide() {
    const auto done = std::exchange(done_, nullptr);
    const auto refusal = std::find_if(verdicts_.begin(), verdicts_.end(), [](const auto& verdict) {
      return verdict.error.has_value();
    });
    if (refusal == verdicts_.end()) {
      done({});
    } else {
      done(fail(request_->end(std::move(*refusal))));
    }
  }

  const AdmissionSurroundings around_;
  const std::shared_ptr<WebhookRequest> request_;
  const std::shared_ptr<const WebhookIndex::Webhooks> webhooks_;
  std::function<void(Expected<void>)> done_;
  std::vector<WebhookRequest::Invocation> invocations_;
  std::vector<WebhookRequest::Verdict> verdicts_;
  std::size_t next_ = 0, running_ = 0;
};

}  // namespace

void WebhookAdmission::start(apiserver::ApiServer& server) {
  server_ = &server;
  webhooks_.start(server);
}

bool WebhookAdmission::concerns(const apiserver::PendingWrite& write) const {
  return !webhooks_.empty() && scope_.includes(write) && webhooks_.has(scope_.cluster_of(write));
}

void WebhookAdmission::review(const apiserver::PendingWritePtr& write, apiserver::Review review,
                              std::function<void(Expected<void>)> done) {
  const AdmissionSurroundings around{loop_, alive_.weak(), registry_, server_->reader(),
                                     authorizer_};
  auto request = std::make_shared<WebhookRequest>(around, *calls_, write, std::move(review));
  std::make_shared<ValidatingRun>(around, std::move(request),
                                  webhooks_.webhooks(scope_.cluster_of(*write)), std::move(done))
      ->find_from(0);
}

}  // namespace kintsugi::kinds
