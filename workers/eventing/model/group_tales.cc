#include "workers/eventing/model/group_tales.h"

#include <algorithm>
#include <string>
#include <string_view>

#include "workers/eventing/model/placeable.h"
#include "workers/runtime/status/conditions.h"

namespace kintsugi::workers {
namespace {

using krm::Json;

struct Said {
  std::string_view status, reason;
  std::string message;
  bool operator==(const Said& other) const noexcept {
    return status == other.status && reason == other.reason;
  }
};

Said said(const Json& status, std::string_view type) {
  const Json* const one = find_condition(status, type);
  return one == nullptr ? Said{}
                        : Said{one->text({"status"}), one->text({"reason"}),
                               std::string(one->text({"message"}))};
}

/// Of the condition Consumers: it passes, or the other condition says it.
bool passes(std::string_view reason) {
  constexpr std::string_view kPassing[] = {"BindInProgress", "PodNotSeen", "GenerationBehind",
                                           "NotEnoughPods"};
  return std::find(std::begin(kPassing), std::end(kPassing), reason) != std::end(kPassing);
}

bool is_fault(const Said& consumers) {
  return consumers.status == "False" && !passes(consumers.reason);
}

Tale warning_of(const Said& what) {
  return {true, std::string(what.reason), what.message.empty() ? "it is so" : what.message};
}

}  // namespace

std::vector<Tale> group_tales(const Json& from, const Json& to) {
  std::vector<Tale> out;
  const Said was = said(from, "ConsumersScheduled"), is = said(to, "ConsumersScheduled");
  const Said were = said(from, "Consumers"), are = said(to, "Consumers");
  if (is.status == "False" && !(is == was)) {
    // What is not placed since something else is wrong is told as that.
    if (is.reason != "Schedule" || !is_fault(are)) {
      out.push_back(warning_of(is));
    }
  } else if (is.status == "True" && !(is == was)) {
    const Placeable now = read_status_placeable(to).placeable;
    out.push_back({false, std::string(is.reason),
                   now.placements.empty() ? "nothing is to be placed"
                                          : "placed: " + canonical_placements(now.placements)});
  }
  if (is_fault(are) && !(are == were)) {
    out.push_back(warning_of(are));
  } else if (!is_fault(are) && is_fault(were)) {
    out.push_back({false, "Recovered", std::string(were.reason) + " is over"});
  }
  return out;
}

}  // namespace kintsugi::workers
