#include "kinds/policies/mutation_admission.h"

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "kinds/policies/internal/surroundings.h"
#include "kinds/policies/mutating/policy_mutations.h"
#include "kinds/policies/webhooks/webhook_request.h"
#include "krm/go_text.h"
#include "krm/json_patch.h"
#include "krm/status.h"

namespace kintsugi::kinds {
namespace {

using apiserver::Changed;
using krm::Json;

/// One write on its way through policies and webhooks that may change it, in one round or two.
class MutatingRun : public std::enable_shared_from_this<MutatingRun> {
 public:
  MutatingRun(AdmissionSurroundings around, apiserver::PendingWritePtr write,
              std::shared_ptr<WebhookRequest> request, std::shared_ptr<PolicyMutations> policies,
              std::shared_ptr<const WebhookIndex::Webhooks> webhooks,
              std::function<void(Expected<Changed>)> done)
      : around_(std::move(around)),
        write_(std::move(write)),
        request_(std::move(request)),
        policies_(std::move(policies)),
        webhooks_(std::move(webhooks)),
        done_(std::move(done)) {}

  /// A round.
  void run() {
    policies_->run(request_->round > 0, [self = shared_from_this()](const Expected<bool>& changed) {
      if (!changed) {
        self->done_(fail(changed.error().clone()));
        return;
      }
      if (*changed) {
        self->changed_ = true;
        self->ask_again();
      }
      self->go_on(0);
    });
  }

 private:
  void run_from(std::size_t first) {
    const auto skips = [this](std::size_t i) { return request_->round > 0 && !again_.contains(i); };
    const auto invoked = [self = shared_from_this()](std::size_t i, auto invocation) {
      self->invoke(i, std::move(invocation));
    };
    if (request_->invoke_next(*webhooks_, first, skips, invoked)) {
      return;
    }
    if (request_->round == 0 && changed_) {
      request_->round = 1;
      run();
      return;
    }
    done_(changed_ ? request_->forms()->object() : Changed());
  }

  /// Webhooks that were asked before the object changed are asked again.
  void ask_again() {
    again_.merge(asked_before_);
    asked_before_.clear();
  }

  /// In a turn of its own, as there may be many.
  void go_on(std::size_t next) {
    around_.later([self = shared_from_this(), next] { self->run_from(next); });
  }

  void invoke(std::size_t i, Expected<std::optional<WebhookRequest::Invocation>> invocation) {
    if (!invocation) {
      done_(fail(std::move(invocation.error())));
    } else if (!*invocation) {
      go_on(i + 1);
    } else {
      asked_ = **invocation;
      request_->ask(asked_, i, [self = shared_from_this(), i](WebhookRequest::Verdict verdict) {
        self->judge(i, std::move(verdict));
      });
    }
  }

  void judge(std::size_t i, WebhookRequest::Verdict verdict) {
    if (verdict.error) {
      note(i, false);
      done_(fail(request_->end(std::move(verdict))));
      return;
    }
    if (!verdict.answer || verdict.answer->patch.empty()) {
      finish(i, false);
      return;
    }
    const Webhook& webhook = *asked_.webhook;
    const Expected<krm::JsonPatch> patch = krm::JsonPatch::parse(verdict.answer->patch);
    if (!patch) {
      WebhookRequest::Verdict failure = request_->failed(
          webhook, i,
          "received undecodable patch in webhook response: the answer was not understood", {});
      if (failure.error) {
        note(i, false);
        done_(fail(request_->end(std::move(failure))));
      } else {
        finish(i, false);
      }
      return;
    }
    if (verdict.answer->patch == "[]") {
      finish(i, false);
      return;
    }
    if (asked_.form->object == nullptr) {
      refuse(i, "attempted to modify the object, which is not supported for this operation");
      return;
    }
    Expected<Json> patched = patch->apply(*asked_.form->object);
    if (!patched) {
      refuse(i, "returned a patch that does not apply");
      return;
    }
    take(i, std::move(*patched));
  }

  void take(std::size_t i, Json patched) {
    if (asked_.form->kind == nullptr) {
      taken(i, std::move(patched));
      return;
    }
    write_->take_back(std::move(patched), asked_.form->kind,
                      [self = shared_from_this(), i](Expected<Json> object) {
                        if (!object) {
                          self->refuse(i, "returned a patch that makes no object of the kind");
                          return;
                        }
                        self->taken(i, std::move(*object));
                      });
  }

  void taken(std::size_t i, Json object) {
    const bool differs = !(object == *request_->forms()->object());
    if (differs) {
      request_->forms()->set_object(std::make_shared<const Json>(std::move(object)));
      changed_ = true;
      ask_again();
      policies_->object_changed();
    }
    finish(i, differs);
  }

  /// Our own words for a fault that no failure policy covers.
  void refuse(std::size_t i, const char* what) {
    note(i, false);
    done_(fail(
        krm::internal("admission webhook " + krm::go_quote(asked_.webhook->name) + " " + what)));
  }

  void finish(std::size_t i, bool differs) {
    note(i, differs);
    if (asked_.webhook->reinvoked) {
      asked_before_.insert(i);
    }
    go_on(i + 1);
  }

  void note(std::size_t i, bool differs) {
    request_->annotate("mutation.webhook.admission.k8s.io/round_" +
                           std::to_string(request_->round) + "_index_" + std::to_string(i),
                       "{\"configuration\":" + Json(asked_.webhook->configuration).dump() +
                           ",\"webhook\":" + Json(asked_.webhook->name).dump() +
                           ",\"mutated\":" + (differs ? "true" : "false") + "}");
  }

  const AdmissionSurroundings around_;
  const apiserver::PendingWritePtr write_;
  const std::shared_ptr<WebhookRequest> request_;
  const std::shared_ptr<PolicyMutations> policies_;
  const std::shared_ptr<const WebhookIndex::Webhooks> webhooks_;
  std::function<void(Expected<Changed>)> done_;
  WebhookRequest::Invocation asked_;
  bool changed_ = false;
  std::set<std::size_t> asked_before_;  ///< that may be asked again, since the last change
  std::set<std::size_t> again_;         ///< that are asked again in the second round
};

}  // namespace

void MutationAdmission::start(apiserver::ApiServer& server) {
  server_ = &server;
  policies_.start(server);
  webhooks_.start(server);
}

bool MutationAdmission::may_change(const apiserver::PendingWrite& write) const {
  if ((webhooks_.empty() && policies_.empty()) || !scope_.includes(write)) {
    return false;
  }
  const std::string rules = scope_.cluster_of(write);
  return webhooks_.has(rules) || policies_.has(rules);
}

void MutationAdmission::mutate(const apiserver::PendingWritePtr& write, apiserver::Review review,
                               std::function<void(Expected<Changed>)> done) {
  const AdmissionSurroundings around{loop_, alive_.weak(), registry_, server_->reader(),
                                     authorizer_};
  auto request = std::make_shared<WebhookRequest>(around, *calls_, write, std::move(review));
  const std::string rules = scope_.cluster_of(*write);
  auto policies = std::make_shared<PolicyMutations>(around, rules, policies_.hooks(rules), write,
                                                    request->forms());
  std::make_shared<MutatingRun>(around, write, std::move(request), std::move(policies),
                                webhooks_.webhooks(rules), std::move(done))
      ->run();
}

}  // namespace kintsugi::kinds
