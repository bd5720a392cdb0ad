#include "kinds/policies/internal/access_cache.h"

#include <utility>

#include "krm/selector.h"

namespace kintsugi::kinds {
namespace {

auth::UserInfo account_user(const cel::AccessQuestion& question) {
  auth::UserInfo user;
  user.name = auth::service_account_user(question.account_namespace, question.account);
  user.groups = auth::service_account_groups(question.account_namespace);
  return user;
}

}  // namespace

std::optional<cel::AccessAnswer> AccessCache::ask(const cel::AccessQuestion& question) {
  const auto [place, fresh] = answers_.try_emplace(question);
  if (!fresh) {
    return place->second;
  }
  auth::Attributes attributes;
  attributes.user = question.account.empty() ? user_ : account_user(question);
  attributes.cluster = cluster_;
  attributes.deep = !question.account.empty();  // an account need not be able to come here
  attributes.verb = question.verb;
  attributes.is_resource = question.path.empty();
  if (attributes.is_resource) {
    attributes.group = question.group;
    attributes.version = "*";
    attributes.resource = question.resource;
    attributes.subresource = question.subresource;
    attributes.ns = question.ns;
    attributes.name = question.name;
    const Expected<krm::FieldSelector> fields = krm::FieldSelector::parse(question.field_selector);
    if (const auto name = fields ? fields->exact("metadata.name") : std::nullopt) {
      attributes.field_selector_name = *name;
    }
  } else {
    attributes.path = question.path;
  }
  ++waiting_;
  authorizer_.authorize(attributes,
                        [self = shared_from_this(), question](Expected<auth::Decision> decision) {
                          self->answered(question, std::move(decision));
                        });
  return answers_[question];
}

void AccessCache::answered(const cel::AccessQuestion& question, Expected<auth::Decision> decision) {
  cel::AccessAnswer answer;
  if (decision) {
    answer.allowed = decision->allowed;
    answer.reason = std::move(decision->reason);
  } else {
    answer.error = decision.error().message().empty() ? errc_name(decision.error().code())
                                                      : decision.error().message();
  }
  answers_[question] = std::move(answer);
  if (--waiting_ == 0) {
    if (const auto next = std::exchange(next_, nullptr)) {
      next();
    }
  }
}

}  // namespace kintsugi::kinds
