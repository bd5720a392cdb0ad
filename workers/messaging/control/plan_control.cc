#include "workers/messaging/control/plan_control.h"

#include <utility>

#include "workers/messaging/model/address_plans.h"
#include "workers/messaging/model/space_status.h"

namespace kintsugi::workers {

namespace {

constexpr Duration kNotSynced = milliseconds(200);
/// Spaces come in numbers; the count follows so long after the first of them.
constexpr Duration kCountAfter = seconds(1);

const ObjectCache<CachedPlan>& plans_of(const Site& site, MessagingKind kind) {
  return kind == MessagingKind::kAddressSpacePlan ? *site.directory().space_plans
                                                  : *site.directory().messaging_plans;
}

const CachedPlan* find_plan(const Site& site, const ObjectRefKey& key) {
  return Directory::find(plans_of(site, key.kind), key.key.view());
}

const CachedAddressPlan* find_address_plan(const Site& site, const ObjectRefKey& key) {
  return Directory::find(key.kind == MessagingKind::kAddressPlan
                             ? *site.directory().address_plans
                             : *site.directory().messaging_address_plans,
                         key.key.view());
}

ObjectRefKey ref(MessagingKind kind, const QueueKey& key) {
  return {kind, {std::string(key.cluster), std::string(key.ns), std::string(key.name)}};
}

/// text_of() of the plan that a space has, "" for none.
std::string plan_text(const Site& site, const ObjectRefKey& space) {
  const auto* const cached =
      Directory::find(site.directory().spaces_of(space.kind), space.key.view());
  if (cached == nullptr || !cached->parsed.object.shared) {
    return {};
  }
  const Chosen<MessagingPlan> plan = site.directory().plan(*cached);
  if (plan.object == nullptr) {
    return {};
  }
  const MessagingKind kind = cached->parsed.object.is_tenant() ? MessagingKind::kMessagingPlan
                                                               : MessagingKind::kAddressSpacePlan;
  const ObjectIdentity& id = plan.object->id;
  return text_of({kind, {id.cluster, id.ns, id.name}});
}

/// The object of a text_of(): its kind is one of plans.
ObjectRefKey plan_of_text(std::string_view text) {
  const auto kind = static_cast<MessagingKind>(text.front() - 'a');
  const std::vector<std::string_view> parts = split(text.substr(1), '|');
  return {kind, {std::string(parts[0]), std::string(parts[1]), std::string(parts[2])}};
}

}  // namespace

bool UseCounts::set(std::string_view thing, std::string_view used) {
  const auto at = uses_.find(thing);
  if ((at == uses_.end() && used.empty()) || (at != uses_.end() && at->second == used)) {
    return false;
  }
  if (at != uses_.end()) {
    if (const auto count = counts_.find(at->second); --count->second == 0) {
      counts_.erase(count);
    }
    uses_.erase(at);
  }
  if (!used.empty()) {
    uses_.emplace(thing, used);
    ++counts_.try_emplace(std::string(used), 0).first->second;
  }
  return true;
}

const std::string& UseCounts::used_by(std::string_view thing) const {
  static const std::string none;
  const auto at = uses_.find(thing);
  return at == uses_.end() ? none : at->second;
}

std::int64_t UseCounts::count(std::string_view used) const {
  const auto at = counts_.find(used);
  return at == counts_.end() ? 0 : at->second;
}

InfraCapacity capacity_of(const MessagingInfra& infra, const krm::Json& status) {
  InfraCapacity out = infra_capacity(infra, broker_memory(infra, 0));
  const krm::Json* const said = status.find("capacity");
  const auto take = [said](std::string_view key, std::optional<std::int64_t>& to) {
    const krm::Json* const one = said == nullptr ? nullptr : said->find(key);
    if (!to && one != nullptr && one->is_integer()) {
      to = one->as_integer();
    }
  };
  // What only its brokers tell.
  take("queueMemory", out.queue_memory);
  take("addresses", out.addresses);
  take("connections", out.connections);
  return out;
}

net::Task<Outcome> PlanControl::reconcile(ObjectRefKey key) {
  if (!site_.directory().synced()) {
    co_return Outcome::requeue_after(kNotSynced);
  }
  std::optional<krm::Json> status = status_of(key);
  if (!status) {
    co_return Outcome::done();
  }
  net::Task<Outcome> saying = site_.write_status(key, std::move(*status), false);
  const Outcome outcome = co_await saying;
  co_return outcome;
}

std::optional<krm::Json> PlanControl::status_of(const ObjectRefKey& key) {
  const CachedPlan* const cached = find_plan(site_, key);
  if (cached == nullptr || !cached->parsed.object.shared) {
    return std::nullopt;
  }
  count_all();
  const MessagingPlan& plan = cached->parsed.object;
  PlanStatusInput input;
  input.plan = &plan;
  input.conditions = &cached->parsed.conditions;
  input.spaces = spaces_.count(text_of(key));
  std::string infra;
  if (!plan.infra.empty()) {
    const std::string& ns = plan.infra.ns.empty() ? plan.id.ns : plan.infra.ns;
    infra = ns + "/" + plan.infra.name;
    const auto* const found =
        Directory::find(*site_.directory().infras, {plan.id.cluster, ns, plan.infra.name});
    if (found != nullptr) {
      input.infra = infra;
      input.feasible =
          plan_feasible(plan.requests, capacity_of(found->parsed.object, found->status_json()));
    } else {
      Condition why;
      why.type = "InfraFound";
      why.status = ConditionStatus::kFalse;
      why.reason = "InfraNotFound";
      why.message = "there is no infra " + infra;
      input.infra_refused = std::move(why);
    }
  }
  return plan_status(input, cached->status_json(), site_.now());
}

net::Task<Outcome> PlanControl::reconcile_address_plan(ObjectRefKey key) {
  if (!site_.directory().synced()) {
    co_return Outcome::requeue_after(kNotSynced);
  }
  const CachedAddressPlan* const cached = find_address_plan(site_, key);
  if (cached == nullptr || cached->parsed.object.legacy || cached->meta.deleting) {
    co_return Outcome::done();
  }
  krm::Json status = address_plan_status(cached->parsed, cached->status_json(), site_.now());
  net::Task<Outcome> saying = site_.write_status(key, std::move(status), false);
  const Outcome outcome = co_await saying;
  co_return outcome;
}

bool PlanControl::address_plan_changed(const ObjectRefKey& plan) {
  const std::string text = text_of(plan);
  const CachedAddressPlan* const cached = find_address_plan(site_, plan);
  if (cached == nullptr) {
    generations_.erase(text);
    return true;
  }
  // The default is one by an annotation, which is no part of the generation.
  const std::int64_t now = 2 * cached->id().generation + (cached->parsed.object.is_default ? 1 : 0);
  const auto [at, is_new] = generations_.try_emplace(text, now);
  return is_new || std::exchange(at->second, now) != now;
}

void PlanControl::count_all() {
  if (!counted_) {
    counted_ = true;
    site_.directory().each_space(
        [this](MessagingKind kind, const QueueKey& key) { space_changed(ref(kind, key)); });
  }
}

void PlanControl::space_changed(const ObjectRefKey& space) {
  if (!counted_) {
    return;  // count_all() finds it
  }
  const std::string thing = text_of(space);
  const std::string before = spaces_.used_by(thing);
  const std::string now = plan_text(site_, space);
  if (!spaces_.set(thing, now)) {
    return;
  }
  for (const std::string* const one : {&before, &now}) {
    if (!one->empty()) {
      const ObjectRefKey plan = plan_of_text(*one);
      site_.look_at_later(plan.kind, plan.key.view(), kCountAfter);
    }
  }
}

void PlanControl::plan_changed(const ObjectRefKey& plan) {
  const std::string text = text_of(plan);
  const CachedPlan* const cached = find_plan(site_, plan);
  const std::int64_t generation = cached == nullptr ? -1 : cached->id().generation;
  const auto at = generations_.find(text);
  const std::int64_t before = at == generations_.end() ? -1 : at->second;
  if (generation == before) {
    return;  // its status
  }
  if (generation < 0) {
    generations_.erase(at);
  } else {
    generations_[text] = generation;
  }
  if (counted_) {
    counted_ = false;
    count_all();
  }
}

void PlanControl::infra_changed(const QueueKey& infra) {
  for (const MessagingKind kind :
       {MessagingKind::kAddressSpacePlan, MessagingKind::kMessagingPlan}) {
    (void)plans_of(site_, kind).each([&](const shards::ObjectKey& key, const CachedPlan& cached) {
      const MessagingPlan& plan = cached.parsed.object;
      const std::string& ns = plan.infra.ns.empty() ? plan.id.ns : plan.infra.ns;
      if (plan.infra.name == infra.name && ns == infra.ns && key.cluster == infra.cluster) {
        site_.look_at_later(kind, {key.cluster, key.ns, key.name}, kCountAfter);
      }
    });
  }
}

}  // namespace kintsugi::workers
