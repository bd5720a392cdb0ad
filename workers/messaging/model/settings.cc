#include "workers/messaging/model/settings.h"

#include <algorithm>

#include "workers/messaging/model/names.h"

namespace kintsugi::workers {

namespace {

constexpr std::int64_t kMostPageBytes = 10 << 20;

BrokerSettings translate(const AddressSettings& from, const SettingsInput& input,
                         const std::optional<std::int64_t>& ttl_minimum) {
  BrokerSettings out;
  std::optional<std::int64_t> memory = from.limits_memory;
  if (!memory && input.type == AddressType::kQueue) {
    memory = input.space_memory;
  }
  if (memory) {
    out.max_size_bytes = std::max<std::int64_t>(1, *memory);
    out.page_size_bytes = std::min(kMostPageBytes, *out.max_size_bytes);
  }
  if (from.limits_depth) {
    out.max_size_messages = std::max<std::int64_t>(1, *from.limits_depth);
    if (input.policy == FullPolicy::kPage) {
      out.full_policy = full_policy_text(FullPolicy::kFail);  // paging does not bound (MD-11)
    }
  }
  if (from.ttl_ms) {
    out.expiry_delay = out.max_expiry_delay = from.ttl_ms;
  }
  out.min_expiry_delay = ttl_minimum;
  if (!from.expiry_queue.empty() && !input.expiry_name.empty()) {
    out.expiry_address = std::string(input.expiry_name);
  }
  if (!from.dead_letter_queue.empty() && !input.dead_letter_name.empty()) {
    out.dead_letter_address = std::string(input.dead_letter_name);
  }
  return out;
}

/// Says what it does not set, too: else the class that its name begins with would.
BrokerSettings spelled_out(BrokerSettings from, FullPolicy policy) {
  const auto unset = [](std::optional<std::int64_t>& value) { value = value.value_or(-1); };
  unset(from.max_size_bytes);
  unset(from.max_size_messages);
  unset(from.expiry_delay);
  unset(from.min_expiry_delay);
  unset(from.max_expiry_delay);
  from.full_policy = from.full_policy.value_or(std::string(full_policy_text(policy)));
  from.expiry_address = from.expiry_address.value_or("");
  from.dead_letter_address = from.dead_letter_address.value_or("");
  return from;
}

}  // namespace

SettingsChoice choose_settings(const SettingsInput& input, std::string_view qualified) {
  SettingsChoice out;
  const EffectiveSettings& effective = *input.effective;
  if (!is_broker_type(input.type) || input.type == AddressType::kSubscription) {
    out.broker_name = input.recorded.empty() ? qualified : input.recorded;
    return out;  // a subscription's are those of its topic
  }
  const BrokerSettings all = translate(effective.settings, input, effective.ttl_minimum_ms);
  std::string wanted;
  BrokerSettings of_plan;
  if (!input.transactional && input.type != AddressType::kTopic) {
    const AddressSettings none;
    const AddressSettings& from = input.plan == nullptr ? none : input.plan->settings;
    of_plan = translate(from, input, std::nullopt);
    if (!of_plan.empty()) {
      const bool of_space = of_plan.expiry_address || of_plan.dead_letter_address ||
                            (of_plan.max_size_bytes && !from.limits_memory);
      // Two infras of one policy share a class; the broker has but one infra.
      wanted = settings_class_name(input.plan == nullptr ? "" : input.plan->id.uid,
                                   of_space ? input.space_id : std::string_view());
    }
  }
  out.broker_name =
      input.recorded.empty() ? broker_name(wanted, qualified) : std::string(input.recorded);
  const std::string_view has = class_of(out.broker_name);
  if (!wanted.empty() && has == wanted) {
    out.settings_class = wanted;
    out.of_class = std::move(of_plan);
    if (all != out.of_class) {
      out.exact = spelled_out(all, input.policy);
    }
  } else if (!has.empty()) {
    out.exact = spelled_out(all, input.policy);
  } else if (!all.empty()) {
    out.exact = all;
  }
  return out;
}

}  // namespace kintsugi::workers
