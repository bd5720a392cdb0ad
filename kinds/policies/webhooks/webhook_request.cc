#include "kinds/policies/webhooks/webhook_request.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/log.h"
#include "base/strings.h"
#include "kinds/policies/internal/evaluate.h"
#include "kinds/policies/webhooks/webhook_totals.h"
#include "krm/go_text.h"
#include "krm/names.h"
#include "krm/status.h"

namespace kintsugi::kinds {
namespace {

using krm::Json;

constexpr int kCallFailed = 503, kFine = 200;

}  // namespace

struct WebhookRequest::Matching {
  Invocation invocation;
  int rounds;  ///< that waited for the authorizer
  Checked done;
  Json document;  ///< that the run looks at
  std::unique_ptr<ConditionRun> run;
};

WebhookRequest::WebhookRequest(AdmissionSurroundings around, WebhookCalls& calls,
                               apiserver::PendingWritePtr write, apiserver::Review review)
    : around_(std::move(around)),
      calls_(calls),
      write_(std::move(write)),
      request_(policy_request(*write_, review)),
      subject_(around_.registry, around_.reader, *write_, request_),
      forms_(std::make_shared<WriteForms>(write_, std::move(review), false)),
      access_(std::make_shared<AccessCache>(around_.authorizer, write_->user, write_->cluster)) {}

bool WebhookRequest::invoke_next(const WebhookIndex::Webhooks& webhooks, std::size_t first,
                                 const std::function<bool(std::size_t index)>& skips,
                                 Invoked done) {
  for (std::size_t i = first; i < webhooks.size(); ++i) {
    if (skips && skips(i)) {
      continue;
    }
    const apiserver::Review& review = forms_->review();
    Expected<std::optional<GroupVersionName>> matched =
        webhooks[i]->matches.match(subject_.of(review.object.get(), review.old.get()));
    if (!matched) {
      done(i, fail(std::move(matched.error())));
      return true;
    }
    if (*matched) {
      invoke(webhooks[i], std::move(**matched),
             [done = std::move(done), i](auto invocation) { done(i, std::move(invocation)); });
      return true;
    }
  }
  return false;
}

void WebhookRequest::invoke(WebhookPtr webhook, GroupVersionName resource, Checked done) {
  const apiserver::ServedKindPtr kind = subject_.kind_of(resource);
  forms_->get(kind, [self = shared_from_this(), webhook = std::move(webhook),
                     resource = std::move(resource),
                     done = std::move(done)](Expected<const WriteForms::Form*> form) {
    if (!form) {
      done(fail(krm::internal(form.error().message())));
      return;
    }
    self->match({webhook, resource, *form}, 0, done);
  });
}

void WebhookRequest::match(const Invocation& invocation, int rounds, Checked done) {
  const Webhook& webhook = *invocation.webhook;
  if (webhook.conditions.empty()) {
    done(std::optional(invocation));
    return;
  }
  GroupVersionName kind = request_.kind;
  if (invocation.form->kind != nullptr) {
    const apiserver::ServedKind& served = *invocation.form->kind;
    kind = {served.def->group, served.version->name, served.def->kind};
  }
  auto matching = std::make_shared<Matching>();
  matching->invocation = invocation;
  matching->rounds = rounds;
  matching->done = std::move(done);
  matching->document = request_.document(request_.resource, kind);
  PolicyInput input;
  input.object = invocation.form->object.get();
  input.old_object = invocation.form->old.get();
  input.authorizer = access_.get();
  input.request_resource = request_.access_question();
  matching->run =
      std::make_unique<ConditionRun>(webhook.environment, webhook.conditions,
                                     admission_input(input, &matching->document, nullptr, true));
  evaluate_conditions(matching);
}

void WebhookRequest::evaluate_conditions(const std::shared_ptr<Matching>& matching) {
  if (!matching->run->go_on(EvaluationTurn())) {
    around_.later([self = shared_from_this(), matching] { self->evaluate_conditions(matching); });
  } else if (!access_->evaluates_again(matching->rounds, [self = shared_from_this(), matching] {
               self->match(matching->invocation, matching->rounds + 1, matching->done);
             })) {
    matched(*matching);
  }
}

void WebhookRequest::matched(const Matching& matching) {
  const Invocation& invocation = matching.invocation;
  const MatchOutcome outcome = matching.run->take();
  if (!outcome.fault.empty() && !invocation.webhook->ignores_failure) {
    matching.done(fail(krm::forbidden(request_.resource.group, request_.resource.name,
                                      request_.name, outcome.fault)));
    return;
  }
  matching.done(outcome.matches ? std::optional(invocation) : std::nullopt);
}

void WebhookRequest::ask(const Invocation& invocation, std::size_t index,
                         std::function<void(Verdict)> done) {
  const WebhookPtr& webhook = invocation.webhook;
  if (request_.dry_run && !webhook->allows_dry_run) {
    done({std::nullopt,
          krm::bad_request("admission webhook " + krm::go_quote(webhook->name) +
                           " does not support dry run"),
          std::nullopt});
    return;
  }
  const std::string uid = random_uuid();
  const auto body = [self = shared_from_this(), invocation, uid] {
    const WriteForms::Form& form = *invocation.form;
    GroupVersionName kind = self->request_.kind;
    if (form.kind != nullptr) {
      kind = {form.kind->def->group, form.kind->version->name, form.kind->def->kind};
    }
    return encode_admission_review({invocation.webhook->review_version, uid, self->request_,
                                    invocation.resource, kind, form.object.get(), form.old.get()});
  };
  const auto begun = std::chrono::steady_clock::now();
  calls_.ask(
      {write_->cluster, webhook, uid, body, write_->time_left()},
      [self = shared_from_this(), webhook, index, uid, begun, done](Expected<std::string> answer) {
        const auto took = std::chrono::steady_clock::now() - begun;
        done(self->judge(*webhook, index, uid, std::move(answer),
                         std::chrono::duration_cast<Duration>(took)));
      });
}

WebhookRequest::Verdict WebhookRequest::judge(const Webhook& webhook, std::size_t index,
                                              std::string_view uid, Expected<std::string> body,
                                              Duration took) {
  if (!body) {
    return failed(webhook, index, "failed to call webhook: " + std::string(body.error().message()),
                  took);
  }
  Expected<AdmissionAnswer> answer =
      decode_admission_review(webhook.review_version, uid, webhook.mutating, *body);
  if (!answer) {
    log_warn("the answer of an admission webhook cannot be used",
             {{"cluster", write_->cluster},
              {"webhook", webhook.name},
              {"error", answer.error().message()}});
    return failed(webhook, index,
                  "received invalid webhook response: " + std::string(answer.error().message()),
                  took);
  }
  for (auto& [key, value] : answer->annotations) {
    annotate(webhook.name + "/" + key, std::move(value));
  }
  for (std::string& warning : answer->warnings) {
    write_->notes.warnings.push_back(std::move(warning));
  }
  WebhookTotals::Call call{webhook.mutating, request_.operation, "", kFine, false, took};
  Verdict verdict;
  if (answer->allowed) {
    verdict.answer = std::move(*answer);
  } else {
    verdict.status = denial_status(webhook.name, answer->result);
    verdict.error = denial_error(*verdict.status);
    call.error_type = "no_error";
    call.code = verdict.error->detail().http_status;
  }
  webhook_totals().count(call);
  return verdict;
}

WebhookRequest::Verdict WebhookRequest::failed(const Webhook& webhook, std::size_t index,
                                               std::string_view why, Duration took) {
  const std::string_view error_type = webhook.ignores_failure ? "" : "calling_webhook_error";
  webhook_totals().count({webhook.mutating, request_.operation, error_type, kCallFailed,
                          webhook.ignores_failure, took});
  Verdict verdict;
  if (write_->time_left() == Duration::zero()) {
    verdict.error = Error(Errc::kTimeout, "request did not complete within requested timeout");
  } else if (!webhook.ignores_failure) {
    verdict.error = krm::internal("failed calling webhook " + krm::go_quote(webhook.name) + ": " +
                                  std::string(why));
  } else {
    annotate(std::string(webhook.mutating ? "failed-open.mutation" : "failed-open.validating") +
                 ".webhook.admission.k8s.io/round_" + std::to_string(round) + "_index_" +
                 std::to_string(index),
             webhook.name);
  }
  return verdict;
}

Error WebhookRequest::end(Verdict verdict) {
  write_->notes.status = std::move(verdict.status);
  return std::move(*verdict.error);
}

void WebhookRequest::annotate(std::string key, std::string value) {
  const std::size_t slash = key.find('/');
  const bool valid = krm::check_qualified_name(key).empty() && slash != std::string::npos;
  const auto& notes = write_->notes.annotations;
  if (valid && std::none_of(notes.begin(), notes.end(),
                            [&key](const auto& note) { return note.first == key; })) {
    write_->notes.annotations.emplace_back(std::move(key), std::move(value));
  }
}

}  // namespace kintsugi::kinds
