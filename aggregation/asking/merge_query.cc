#include "aggregation/asking/merge_query.h"

#include <algorithm>
#include <array>
#include <charconv>

#include "base/strings.h"
#include "krm/go_text.h"
#include "krm/protobuf.h"
#include "krm/selector.h"
#include "krm/status.h"

namespace kintsugi::aggregation {
namespace {

bool flag(const krm::Query& query, std::string_view key) {
  const auto text = query.get(key);
  const std::string lower = text ? to_lower(*text) : "false";
  return lower != "0" && lower != "false";
}

Expected<std::int64_t> integer(const krm::Query& query, std::string_view key) {
  const auto text = query.get(key);
  if (!text) {
    return 0;
  }
  std::int64_t value = 0;
  const char* end = text->data() + text->size();
  const bool plus = text->size() > 1 && text->starts_with('+') && (*text)[1] != '-';
  const auto [stop, code] = std::from_chars(text->data() + (plus ? 1 : 0), end, value);
  if (code != std::errc() || stop != end) {
    return fail(krm::bad_request(
        std::string(key) + ": strconv.ParseInt: parsing " + krm::go_quote(*text) +
        (code == std::errc::result_out_of_range ? ": value out of range" : ": invalid syntax")));
  }
  return std::max<std::int64_t>(value, 0);
}

/// What V01 to V17 look at.
struct Facts {
  bool watch, has_match, exact, not_older, known_match, has_version, zero_version, has_continue,
      has_initial;
};

struct Rule {
  bool (*broken)(const Facts&);
  std::string_view field, text;  ///< text "": the value itself is not supported
};

constexpr std::string_view kMatchField = "resourceVersionMatch";
constexpr std::string_view kInitialField = "sendInitialEvents";

constexpr std::array<Rule, 8> kRules{{
    {[](const Facts& f) { return !f.watch && f.has_match && !f.has_version; }, kMatchField,
     "resourceVersionMatch is forbidden unless resourceVersion is provided"},  // V03
    {[](const Facts& f) { return f.has_match && f.has_continue; }, kMatchField,
     "resourceVersionMatch is forbidden when continue is provided"},                  // V04
    {[](const Facts& f) { return f.has_match && !f.known_match; }, kMatchField, {}},  // V05
    {[](const Facts& f) { return !f.watch && f.exact && f.zero_version; }, kMatchField,
     "resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\""},  // V06
    {[](const Facts& f) { return !f.watch && f.has_initial; }, kInitialField,
     "sendInitialEvents is forbidden for list"},  // V07
    {[](const Facts& f) { return f.watch && f.has_initial && !f.not_older; }, kMatchField,
     "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"},  // V08
    {[](const Facts& f) { return f.watch && f.has_match && !f.has_initial; }, kMatchField,
     "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided"},  // V09
    {[](const Facts& f) { return f.watch && f.exact; }, kMatchField,
     "resourceVersionMatch \"Exact\" is forbidden for watch"},  // V10
}};

/// Ours to set for each shard.
constexpr std::array<std::string_view, 8> kOwnKeys{
    "watch",    "resourceVersion",     "resourceVersionMatch", "limit",
    "continue", "allowWatchBookmarks", "sendInitialEvents",    "timeoutSeconds"};

/// V11, as far as shards need not be asked. That no other name is in the path: read_wildcard().
Expected<void> check_selectors(const MergeQuery& query) {
  if (const auto labels = krm::Selector::parse_asked(query.label_selector); !labels) {
    return fail(labels.error().clone());
  }
  if (const auto fields = krm::FieldSelector::parse(query.field_selector); !fields) {
    return fail(fields.error().clone());
  }
  return {};
}

Cause cause_of(const Rule& rule, std::string_view match, bool watch) {
  if (!rule.text.empty()) {
    return krm::field_forbidden(std::string(rule.field), rule.text);
  }
  std::vector<std::string> supported{"NotOlderThan"};
  if (!watch) {
    supported = {"Exact", "NotOlderThan", ""};
  }
  return krm::field_not_supported(std::string(rule.field), krm::Json(std::string(match)),
                                  supported);
}

constexpr std::string_view kJson = "application/json";

/// "application/json" of "Application/json;as=Table".
std::string type_of(std::string_view clause) {
  return to_lower(trim(clause.substr(0, clause.find(';'))));
}

bool is_table(const std::string& clause) {
  return to_lower(clause).find("as=table") != std::string::npos;
}

template <class Keep>
std::string clauses_of(std::string_view accept, const Keep& keep) {
  std::string out;
  for (const std::string_view clause : split(accept, ',')) {
    const std::string whole(trim(clause));
    if (keep(whole)) {
      out += (out.empty() ? "" : ", ") + whole;
    }
  }
  return out;
}

}  // namespace

Expected<MergeQuery> parse_merge_query(const krm::RequestInfo& info) {
  MergeQuery out;
  const krm::Query& query = info.query;
  const auto text = [&query](std::string_view key) {
    return std::string(query.get(key).value_or(""));
  };
  out.watch = info.verb == "watch";
  for (const auto& [key, target] :
       {std::pair<std::string_view, std::int64_t*>{"limit", &out.limit},
        std::pair<std::string_view, std::int64_t*>{"timeoutSeconds", &out.timeout_seconds}}) {
    const Expected<std::int64_t> value = integer(query, key);
    if (!value) {
      return fail(value.error().clone());
    }
    *target = *value;
  }
  out.label_selector = text("labelSelector");
  out.field_selector = text("fieldSelector");
  out.shard_selector = text("shardSelector");
  out.resource_version = text("resourceVersion");
  out.continue_token = text("continue");
  if (Expected<void> good = check_selectors(out); !good) {
    return fail(std::move(good.error()));
  }
  out.bookmarks = out.watch && flag(query, "allowWatchBookmarks");
  if (query.get("sendInitialEvents")) {
    out.initial_events = flag(query, "sendInitialEvents");
  }
  const std::string match = text("resourceVersionMatch");
  const Facts facts{out.watch,
                    !match.empty(),
                    match == "Exact",
                    match == "NotOlderThan",
                    match == "Exact" || match == "NotOlderThan",
                    !out.resource_version.empty(),
                    out.resource_version == "0",
                    !out.continue_token.empty(),
                    out.initial_events.has_value()};
  out.match = facts.exact       ? RvMatch::kExact
              : facts.not_older ? RvMatch::kNotOlderThan
                                : RvMatch::kNone;
  std::vector<Cause> causes;
  for (const Rule& rule : kRules) {
    if (rule.broken(facts)) {
      causes.push_back(cause_of(rule, match, out.watch));
    }
  }
  if (!causes.empty()) {
    return fail(krm::invalid("meta.k8s.io", "ListOptions", "", std::move(causes)));
  }
  if (facts.has_continue && facts.has_version && !facts.zero_version && !out.watch) {  // V13
    return fail(krm::bad_request("specifying resource version is not allowed when using continue"));
  }
  for (const auto& [key, value] : query.pairs()) {
    // Typed clients send their timeoutSeconds as `timeout` too, another one each time. It is no
    // part of the question, or none of them would share a stream (AGG-901).
    const bool is_own = std::find(kOwnKeys.begin(), kOwnKeys.end(), key) != kOwnKeys.end() ||
                        (out.watch && key == "timeout");
    if (!is_own) {
      out.passed_on += '&' + percent_encode(key) + '=' + percent_encode(value);
    }
  }
  return out;
}

std::optional<std::string> mergeable_accept(std::string_view accept, bool protobuf) {
  if (trim(accept).empty()) {
    return std::string(kJson);
  }
  std::string out;
  for (const std::string_view clause : split(accept, ',')) {
    const std::string whole(trim(clause));
    const std::string type = type_of(whole);
    const bool any = type == "*/*" || type == "application/*";
    if (type != kJson && !any && (!protobuf || type != krm::kProtobufMediaType)) {
      continue;
    }
    if (!out.empty()) {
      out += ", ";
    }
    out += any ? std::string(kJson) + whole.substr(std::min(whole.find(';'), whole.size())) : whole;
  }
  if (out.empty()) {
    return std::nullopt;
  }
  return out;
}

Error not_mergeable(bool protobuf) {
  std::string message = "only the following media types are accepted: application/json";
  if (protobuf) {
    (message += ", ") += krm::kProtobufMediaType;
  }
  return Error(Errc::kNotAcceptable, std::move(message));
}

std::string without_protobuf(std::string_view accept) {
  return clauses_of(accept, [](const std::string& clause) { return type_of(clause) == kJson; });
}

std::string without_tables(std::string_view accept) {
  return clauses_of(accept, [](const std::string& clause) { return !is_table(clause); });
}

bool allows_table(std::string_view accept) {
  return without_tables(accept).size() !=
         clauses_of(accept, [](const auto&) { return true; }).size();
}

}  // namespace kintsugi::aggregation
