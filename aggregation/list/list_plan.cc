#include "aggregation/list/list_plan.h"

#include "base/strings.h"
#include "krm/go_text.h"
#include "krm/status.h"

namespace kintsugi::aggregation {
namespace {

std::string make_query(std::string first, const MergeQuery& query) {
  first += query.passed_on;
  if (!first.empty()) {
    first.front() = '?';
  }
  return first;
}

std::string limit_part(std::int64_t limit) {
  return limit > 0 ? "&limit=" + std::to_string(limit) : std::string();
}

std::string version_part(std::uint64_t revision) {
  return "&resourceVersion=" + std::to_string(revision);
}

}  // namespace

Error version_expired() {
  return Error(Errc::kExpired, "The resourceVersion for the provided list is too old.");
}

Error version_malformed(std::string_view text) {
  return krm::bad_request("resourceVersion: Invalid value: " + krm::go_quote(text.substr(0, 64)) +
                          ": not a resourceVersion");
}

std::string pinned_query(const MergeQuery& query, std::uint64_t pin, std::int64_t limit) {
  return make_query(version_part(pin) + "&resourceVersionMatch=Exact" + limit_part(limit), query);
}

std::string newest_query(const MergeQuery& query, std::int64_t limit) {
  return make_query(limit_part(limit), query);
}

std::string continued_query(const MergeQuery& query, std::string_view token, std::int64_t limit) {
  return make_query("&continue=" + percent_encode(token) + limit_part(limit), query);
}

Expected<ListPlan> plan_list(const MergeQuery& query, const DecodedVersion& version,
                             const std::vector<std::size_t>& slots) {
  ListPlan plan;
  plan.steps.resize(slots.size());
  const bool paged = query.limit > 0 && version.kind != VersionClass::kZero;
  const bool exact = query.match == RvMatch::kExact || (paged && query.match == RvMatch::kNone &&
                                                        version.kind != VersionClass::kUnset);
  switch (version.kind) {
    case VersionClass::kMalformed:
      return fail(version_malformed(query.resource_version));
    case VersionClass::kUnknown:
    case VersionClass::kFuture:
      return fail(version_expired());
    case VersionClass::kNative:
      if (exact) {
        return fail(version_expired());
      }
      break;
    case VersionClass::kCursor:
      if (!version.departed.empty()) {
        return fail(version_expired());
      }
      break;
    default:
      break;
  }
  plan.limit = paged ? query.limit : 0;
  const std::string match =
      query.match == RvMatch::kNotOlderThan ? "&resourceVersionMatch=NotOlderThan" : std::string();
  for (std::size_t i = 0; i < slots.size(); ++i) {
    ListStep& step = plan.steps[i];
    const std::uint64_t component =
        version.kind == VersionClass::kCursor ? version.components[slots[i]] : 0;
    if (exact) {
      step.pin = component;
      step.kind = component == 0   ? ListStep::Kind::kSkip
                  : paged && i > 0 ? ListStep::Kind::kLater
                                   : ListStep::Kind::kRead;
      step.query = step.kind == ListStep::Kind::kRead ? pinned_query(query, component, plan.limit)
                                                      : std::string();
      continue;
    }
    std::string text;
    if (version.kind == VersionClass::kZero) {
      text = "&resourceVersion=0" + match;
    } else if (component != 0) {
      // With a limit and no match a shard would read exactly there.
      text = version_part(component) + "&resourceVersionMatch=NotOlderThan";
    }
    step.kind = paged && i > 0 ? ListStep::Kind::kPin : ListStep::Kind::kRead;
    text += limit_part(step.kind == ListStep::Kind::kPin ? 1 : plan.limit);
    step.query = make_query(std::move(text), query);
  }
  return plan;
}

ListPlan plan_page(const MergeQuery& query, const MergedContinue& token,
                   const std::vector<std::size_t>& slots) {
  ListPlan plan;
  plan.steps.resize(slots.size());
  plan.limit = query.limit;
  plan.from_token = true;
  plan.inconsistent = token.inconsistent;
  bool begun = false;
  for (std::size_t i = 0; i < slots.size(); ++i) {
    ListStep& step = plan.steps[i];
    step.pin = slots[i] < token.pins.size() ? token.pins[slots[i]] : 0;
    if (slots[i] < token.slot || step.pin == 0) {
      step.kind = ListStep::Kind::kSkip;
      continue;
    }
    if (begun) {
      step.kind = ListStep::Kind::kLater;
      continue;
    }
    begun = true;
    plan.first = i;
    step.kind = ListStep::Kind::kRead;
    if (slots[i] == token.slot && !token.member_token.empty()) {
      step.query = continued_query(query, token.member_token, plan.limit);
    } else {
      step.query = token.inconsistent ? newest_query(query, plan.limit)
                                      : pinned_query(query, step.pin, plan.limit);
    }
  }
  return plan;
}

}  // namespace kintsugi::aggregation
