#include "workers/messaging/model/operator_plan.h"

#include <algorithm>
#include <map>

#include "base/strings.h"
#include "workers/messaging/model/admission.h"

namespace kintsugi::workers {

namespace {

using krm::Json;

constexpr std::string_view kZone = "topology.kubernetes.io/zone";

std::string_view name_of(const Json& object) { return object.text({"metadata", "name"}); }

bool is_deleting(const Json& object) {
  return object.at({"metadata", "deletionTimestamp"}) != nullptr;
}

bool is_ours(const MessagingInfra& infra, const Json& object) {
  return object.text({"metadata", "labels", kInfraLabel}) == infra.id.name;
}

const Json* find(std::span<const Json> list, std::string_view name) {
  const auto at = std::find_if(list.begin(), list.end(),
                               [name](const Json& one) { return name_of(one) == name; });
  return at == list.end() ? nullptr : &*at;
}

/// n of "<infra>-b<n>".
std::optional<std::int64_t> index_of(const MessagingInfra& infra, std::string_view name) {
  const std::string prefix = infra.id.name + "-b";
  if (!name.starts_with(prefix)) {
    return std::nullopt;
  }
  const auto index = parse_decimal<std::int64_t>(name.substr(prefix.size()));
  return index && broker_resource_name(infra, *index) == name ? std::optional(*index)
                                                              : std::nullopt;
}

/// Those wanted that differ from what is stored, and those stored that nobody wants.
void compare(const MessagingInfra& infra, std::span<const Json> stored, std::vector<Json> wanted,
             bool broker, OperatorPlan& out) {
  for (const Json& one : stored) {
    if (is_ours(infra, one) && !is_deleting(one) && find(wanted, name_of(one)) == nullptr) {
      out.remove.push_back({broker, std::string(name_of(one))});
    }
  }
  for (Json& one : wanted) {
    const Json* const has = find(stored, name_of(one));
    if (has != nullptr && !is_ours(infra, *has)) {
      out.taken.emplace_back(name_of(one));
    } else if (has == nullptr || (!is_deleting(*has) && !same_spec(*has, one))) {
      out.apply.push_back(std::move(one));
    }
  }
}

}  // namespace

bool operator_makes_routers(const MessagingInfra& infra) noexcept {
  return infra.routers.endpoints.empty();
}

bool operator_makes_brokers(const MessagingInfra& infra) noexcept {
  return infra.brokers.endpoints.empty() && infra.brokers.max > 0;
}

std::int64_t stored_router_size(const MessagingInfra& infra, const OperatorView& view) {
  std::int64_t size = 0;
  for (const Json& one : view.routers) {
    const Json* const says = one.at({"spec", "deploymentPlan", "size"});
    if (is_ours(infra, one) && !is_deleting(one) && says != nullptr && says->is_integer()) {
      size = std::max(size, says->as_integer());
    }
  }
  return size;
}

std::vector<std::int64_t> stored_brokers(const MessagingInfra& infra, const OperatorView& view) {
  std::vector<std::int64_t> out;
  for (const Json& one : view.brokers) {
    if (const auto index = index_of(infra, name_of(one));
        index && is_ours(infra, one) && !is_deleting(one)) {
      out.push_back(*index);
    }
  }
  std::sort(out.begin(), out.end());
  return out;
}

OperatorPlan operator_plan(const MessagingInfra& infra, std::int64_t size,
                           std::span<const std::int64_t> brokers, const OperatorView& view) {
  OperatorPlan out;
  std::vector<Json> routers;
  if (size > 0) {
    routers = router_resources(infra, size);
  }
  compare(infra, view.routers, std::move(routers), false, out);
  std::vector<Json> wanted;
  if (!brokers.empty() && operator_makes_brokers(infra)) {
    std::vector<Json> all = broker_resources(infra, brokers.back() + 1);
    for (const std::int64_t index : brokers) {
      wanted.push_back(std::move(all[static_cast<std::size_t>(index)]));
    }
  }
  compare(infra, view.brokers, std::move(wanted), true, out);
  return out;
}

OperatorPlan operator_removal(const MessagingInfra& infra, const OperatorView& view) {
  OperatorPlan out;
  for (const bool broker : {false, true}) {
    for (const Json& one : broker ? view.brokers : view.routers) {
      if (is_ours(infra, one)) {
        out.gone = false;
        if (!is_deleting(one)) {
          out.remove.push_back({broker, std::string(name_of(one))});
        }
      }
    }
    if (!out.gone) {
      break;
    }
  }
  return out;
}

std::vector<Component> operator_components(const MessagingInfra& infra, const OperatorView& view,
                                           std::span<const Component> before) {
  std::vector<Component> out = components_of(infra, view.pods);
  if (!operator_makes_brokers(infra)) {
    return out;
  }
  std::vector<Component> found;
  const auto brokers = std::stable_partition(out.begin(), out.end(),
                                             [](const Component& one) { return !one.broker; });
  found.assign(std::move_iterator(brokers), std::move_iterator(out.end()));
  out.erase(brokers, out.end());
  const auto with = [](std::span<const Component> list, std::int64_t index) {
    return std::find_if(list.begin(), list.end(),
                        [index](const Component& one) { return one.broker && one.index == index; });
  };
  for (const std::int64_t index : stored_brokers(infra, view)) {
    if (const auto now = with(found, index); now != std::span<const Component>(found).end()) {
      out.push_back(*now);
    } else if (const auto was = with(before, index); was != before.end()) {
      out.push_back(*was);
    } else {
      Component one;
      one.broker = true;
      one.index = index;
      one.endpoint.host = broker_resource_name(infra, index) + "-ss-0";  // as the operator names it
      one.endpoint.port = kBrokerPort;
      one.endpoint.group = "default";
      one.endpoint.plain = true;
      out.push_back(std::move(one));
    }
  }
  return out;
}

std::vector<std::pair<std::string, std::string>> router_zones(const MessagingInfra& infra,
                                                              const OperatorView& view) {
  std::map<std::string, std::string, std::less<>> groups;  // by host
  for (const Component& one : components_of(infra, view.pods)) {
    if (!one.broker) {
      groups[one.endpoint.host] = one.endpoint.group;
    }
  }
  std::vector<std::pair<std::string, std::string>> out;
  for (const Json& pod : view.pods) {
    const std::string_view zone = pod.text({"metadata", "labels", kZone});
    const auto at = groups.find(name_of(pod));
    if (!zone.empty() && at != groups.end()) {
      out.emplace_back(at->second, zone);
    }
  }
  std::sort(out.begin(), out.end());
  return out;
}

std::int64_t router_size(const MessagingInfra& infra, std::int64_t connections, std::int64_t stored,
                         bool complete) {
  const std::int64_t wanted = routers_wanted(infra, connections);
  return complete ? wanted : std::clamp(stored, wanted, std::max(wanted, infra.routers.max));
}

std::vector<std::int64_t> broker_indexes(std::span<const std::int64_t> stored, std::int64_t wanted,
                                         bool complete) {
  std::vector<std::int64_t> out(stored.begin(), stored.end());
  while (complete && static_cast<std::int64_t>(out.size()) > wanted) {
    out.pop_back();
  }
  for (std::int64_t next = 0; static_cast<std::int64_t>(out.size()) < wanted; ++next) {
    if (!std::binary_search(out.begin(), out.end(), next)) {
      out.insert(std::upper_bound(out.begin(), out.end(), next), next);
    }
  }
  return out;
}

}  // namespace kintsugi::workers
