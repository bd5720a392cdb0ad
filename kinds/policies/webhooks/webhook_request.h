#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "apiserver/admission.h"
#include "kinds/policies/internal/access_cache.h"
#include "kinds/policies/internal/policy_request.h"
#include "kinds/policies/internal/surroundings.h"
#include "kinds/policies/internal/write_subject.h"
#include "kinds/policies/webhooks/internal/admission_review.h"
#include "kinds/policies/webhooks/webhook_calls.h"
#include "kinds/policies/webhooks/webhook_index.h"

namespace kintsugi::kinds {

/// One write as webhooks see it: whether one is to be asked, and what it says. Threads: one loop.
/// Lifetime: shared by what it waits for.
class WebhookRequest : public std::enable_shared_from_this<WebhookRequest> {
 public:
  /// @param calls  outlives this
  WebhookRequest(AdmissionSurroundings around, WebhookCalls& calls,
                 apiserver::PendingWritePtr write, apiserver::Review review);

  /// A webhook that is to be asked, and the objects as it knows them: valid until the object
  /// changes.
  struct Invocation {
    WebhookPtr webhook;
    GroupVersionName resource;
    const WriteForms::Form* form = nullptr;
  };
  /// What comes of a webhook that matches: nullopt when its conditions leave it out.
  /// @error is the answer
  using Invoked =
      std::function<void(std::size_t index, Expected<std::optional<Invocation>> invocation)>;
  /// The first that matches from `first` on, but for those that are skipped (empty: none is).
  /// `done` at once or later. False: none does, and `done` never comes.
  [[nodiscard]] bool invoke_next(const WebhookIndex::Webhooks& webhooks, std::size_t first,
                                 const std::function<bool(std::size_t index)>& skips, Invoked done);

  /// How the request goes on.
  struct Verdict {
    std::optional<AdmissionAnswer> answer;  ///< it is allowed; null: a failure that is ignored
    std::optional<Error> error;             ///< it ends
    std::optional<krm::Json> status;        ///< of the error, where the webhook has worded it
  };
  /// `done` comes in a later turn. Warnings and audit annotations are noted, the call is counted.
  /// @param index  of the webhook, for annotations
  void ask(const Invocation& invocation, std::size_t index, std::function<void(Verdict)> done);
  /// What a call that failed means to the request, and to the metrics.
  [[nodiscard]] Verdict failed(const Webhook& webhook, std::size_t index, std::string_view why,
                               Duration took);
  /// Ends the request with one.
  [[nodiscard]] Error end(Verdict verdict);

  /// Rounds of the request so far, for annotations.
  int round = 0;

  [[nodiscard]] const std::shared_ptr<WriteForms>& forms() { return forms_; }
  [[nodiscard]] apiserver::PendingWrite& write() { return *write_; }
  /// Of several values of one key the first stays.
  void annotate(std::string key, std::string value);

 private:
  [[nodiscard]] Verdict judge(const Webhook& webhook, std::size_t index, std::string_view uid,
                              Expected<std::string> body, Duration took);
  using Checked = std::function<void(Expected<std::optional<Invocation>>)>;
  void invoke(WebhookPtr webhook, GroupVersionName resource, Checked done);
  /// The match conditions of a webhook on their way.
  struct Matching;
  void match(const Invocation& invocation, int rounds, Checked done);
  void evaluate_conditions(const std::shared_ptr<Matching>& matching);
  void matched(const Matching& matching);

  const AdmissionSurroundings around_;
  WebhookCalls& calls_;
  const apiserver::PendingWritePtr write_;
  const PolicyRequest request_;
  WriteSubject subject_;
  const std::shared_ptr<WriteForms> forms_;
  const std::shared_ptr<AccessCache> access_;
};

}  // namespace kintsugi::kinds
