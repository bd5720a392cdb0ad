#include <algorithm>

#include "workers/eventing/events/cloud_event.h"

namespace kintsugi::workers {
namespace {

template <class Test>
bool every_attribute(const TextMap& wanted, const CloudEvent& event, const Test& test) {
  return std::all_of(wanted.begin(), wanted.end(), [&](const auto& one) {
    const std::string* const value = event.find(one.first);
    return value != nullptr && test(*value, one.second);
  });
}

bool equals(const std::string& value, const std::string& wanted) {
  return wanted.empty() || value == wanted;
}

bool passes(const DialectedFilter& filter, const CloudEvent& event) {
  using Kind = DialectedFilter::Kind;
  const auto inner = [&](const DialectedFilter& one) { return passes(one, event); };
  const auto& filters = filter.filters;
  switch (filter.kind) {
    case Kind::kExact:
      return every_attribute(filter.attributes, event, equals);
    case Kind::kPrefix:
      return every_attribute(filter.attributes, event,
                             [](const std::string& value, const std::string& wanted) {
                               return value.starts_with(wanted);
                             });
    case Kind::kSuffix:
      return every_attribute(filter.attributes, event,
                             [](const std::string& value, const std::string& wanted) {
                               return value.ends_with(wanted);
                             });
    case Kind::kAll:
      return std::all_of(filters.begin(), filters.end(), inner);
    case Kind::kAny:
      return std::any_of(filters.begin(), filters.end(), inner);
    case Kind::kNot:
      return std::none_of(filters.begin(), filters.end(), inner);
    case Kind::kNone:
    case Kind::kCesql:
      return false;
  }
  return false;
}

}  // namespace

bool passes_filters(const Egress& egress, const CloudEvent& event) {
  if (!egress.dialected_filter.empty()) {
    return std::all_of(egress.dialected_filter.begin(), egress.dialected_filter.end(),
                       [&](const DialectedFilter& filter) { return passes(filter, event); });
  }
  return !egress.filter || every_attribute(*egress.filter, event, equals);
}

}  // namespace kintsugi::workers
