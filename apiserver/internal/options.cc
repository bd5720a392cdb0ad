#include "apiserver/internal/options.h"

#include <algorithm>
#include <charconv>

#include "apiserver/internal/continue_token.h"
#include "base/strings.h"
#include "krm/go_text.h"
#include "krm/go_value.h"
#include "krm/status.h"

namespace kintsugi::apiserver::internal {
namespace {

constexpr std::string_view kMetaGroup = "meta.k8s.io";
constexpr std::size_t kMaxManager = 128;
constexpr seconds kMaxTimeout{60};

Cause forbidden_cause(std::string field, std::string_view detail) {
  return krm::field_forbidden(std::move(field), detail);
}

tl::unexpected<Error> invalid_options(std::string_view kind, std::vector<Cause> causes) {
  return fail(krm::invalid(kMetaGroup, kind, "", std::move(causes)));
}

/// strconv.ParseInt: texts of errors are what clients see.
Expected<std::int64_t> parse_int(std::string_view text) {
  std::int64_t value = 0;
  const char* begin = text.data();
  const char* end = text.data() + text.size();
  if (text.size() > 1 && text.front() == '+') {
    ++begin;
  }
  const auto [stop, code] = std::from_chars(begin, end, value);
  if (code == std::errc::result_out_of_range && stop == end) {
    return fail(krm::bad_request("strconv.ParseInt: parsing " + krm::go_quote(text) +
                                 ": value out of range"));
  }
  if (text.empty() || code != std::errc() || stop != end) {
    return fail(
        krm::bad_request("strconv.ParseInt: parsing " + krm::go_quote(text) + ": invalid syntax"));
  }
  return value;
}

bool parse_flag(std::string_view text) {
  const std::string lower = to_lower(text);
  return lower != "false" && lower != "0";
}

Expected<std::optional<std::int64_t>> optional_int(const krm::Query& query, std::string_view key) {
  const std::optional<std::string_view> text = query.get(key);
  if (!text) {
    return std::optional<std::int64_t>();
  }
  Expected<std::int64_t> value = parse_int(*text);
  if (!value) {
    return fail(std::move(value.error()));
  }
  return std::optional<std::int64_t>(*value);
}

void check_list_match(const ListOptions& options, std::string_view match,
                      std::vector<Cause>& causes) {
  if (!match.empty()) {
    if (options.resource_version.empty()) {
      causes.push_back(
          forbidden_cause("resourceVersionMatch",
                          "resourceVersionMatch is forbidden unless resourceVersion is provided"));
    }
    if (!options.continue_token.empty()) {
      causes.push_back(forbidden_cause(
          "resourceVersionMatch", "resourceVersionMatch is forbidden when continue is provided"));
    }
    if (match != "Exact" && match != "NotOlderThan") {
      causes.push_back(
          krm::field_not_supported("resourceVersionMatch", match, {"Exact", "NotOlderThan", ""}));
    }
    if (match == "Exact" && options.resource_version == "0") {
      causes.push_back(
          forbidden_cause("resourceVersionMatch",
                          "resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\""));
    }
  }
  if (options.send_initial_events) {
    causes.push_back(
        forbidden_cause("sendInitialEvents", "sendInitialEvents is forbidden for list"));
  }
}

void check_watch_match(const ListOptions& options, std::string_view match,
                       std::vector<Cause>& causes) {
  if (options.send_initial_events && match != "NotOlderThan") {
    causes.push_back(
        forbidden_cause("resourceVersionMatch",
                        "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"));
  }
  if (!match.empty() && !options.send_initial_events) {
    causes.push_back(forbidden_cause(
        "resourceVersionMatch",
        "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided"));
  }
  if (!match.empty() && match != "NotOlderThan") {
    causes.push_back(krm::field_not_supported("resourceVersionMatch", match, {"NotOlderThan"}));
  }
  if (!options.continue_token.empty()) {
    causes.push_back(forbidden_cause(
        "resourceVersionMatch", "resourceVersionMatch is forbidden when continue is provided"));
  }
}

/// Appends the causes for `dryRun`; sets the flag.
void read_dry_run(const std::vector<std::string>& values, bool& dry_run,
                  std::vector<Cause>& causes) {
  dry_run = !values.empty();
  if (std::any_of(values.begin(), values.end(), [](const auto& v) { return v != "All"; })) {
    krm::Json shown = krm::Json::array();
    for (const std::string& value : values) {
      shown.push_back(value);
    }
    causes.push_back(krm::field_not_supported("dryRun", shown, {"All"}));
  }
}

std::vector<std::string> dry_run_values(const krm::Query& query) {
  std::vector<std::string> values;
  for (const std::string_view value : query.all("dryRun")) {
    values.emplace_back(value);
  }
  return values;
}

void check_manager(std::string_view manager, std::vector<Cause>& causes) {
  if (manager.size() > kMaxManager) {
    causes.push_back(krm::field_too_long("fieldManager", kMaxManager));
  }
  for (std::size_t i = 0; i < manager.size(); ++i) {
    const auto c = static_cast<unsigned char>(manager[i]);
    if (c < 0x20 || c == 0x7f) {
      constexpr std::string_view kHex = "0123456789ABCDEF";
      std::string text = "Invalid value: " + krm::go_quote(manager) + ": invalid character U+00";
      text += kHex[c >> 4];
      text += kHex[c & 15];
      text += " (at position " + std::to_string(i) + ")";
      causes.push_back({"FieldValueInvalid", std::move(text), "fieldManager"});
    }
  }
}

Expected<void> read_propagation(std::optional<std::string_view> policy, std::optional<bool> orphan,
                                DeleteOptions& options, std::vector<Cause>& causes) {
  if (policy && orphan) {
    causes.push_back(
        krm::field_invalid("propagationPolicy", *policy,
                           "orphanDependents and deletionPropagation cannot be both set"));
  }
  if (policy == "Background") {
    options.propagation = Propagation::kBackground;
  } else if (policy == "Foreground") {
    options.propagation = Propagation::kForeground;
  } else if (policy == "Orphan") {
    options.propagation = Propagation::kOrphan;
  } else if (policy) {
    causes.push_back(krm::field_not_supported("propagationPolicy", *policy,
                                              {"Foreground", "Background", "Orphan", "nil"}));
  } else if (orphan) {
    options.propagation = *orphan ? Propagation::kOrphan : Propagation::kBackground;
  }
  return {};
}

tl::unexpected<Error> cannot_decode(std::string_view detail) {
  return fail(krm::bad_request("json: cannot unmarshal " + std::string(detail)));
}

Expected<void> read_delete_body(const krm::Json& body, DeleteOptions& options,
                                std::vector<Cause>& causes) {
  const std::string_view kind = body.text({"kind"});
  if (!kind.empty() && kind != "DeleteOptions") {
    return fail(krm::bad_request(krm::not_registered(body.text({"apiVersion"}), kind)));
  }
  std::optional<bool> orphan;
  if (const krm::Json* value = body.find("orphanDependents");
      value != nullptr && !value->is_null()) {
    if (!value->is_bool()) {
      return cannot_decode(std::string(krm::go_json_type(*value)) +
                           " into Go struct field DeleteOptions.orphanDependents of type bool");
    }
    orphan = value->as_bool();
  }
  if (const krm::Json* value = body.find("gracePeriodSeconds");
      value != nullptr && !value->is_null() && !value->is_integer()) {
    return cannot_decode(std::string(krm::go_json_type(*value)) +
                         " into Go struct field DeleteOptions.gracePeriodSeconds of type int64");
  }
  std::optional<std::string_view> policy;
  if (const krm::Json* value = body.find("propagationPolicy");
      value != nullptr && !value->is_null()) {
    if (!value->is_string()) {
      return cannot_decode(std::string(krm::go_json_type(*value)) +
                           " into Go struct field DeleteOptions.propagationPolicy of type string");
    }
    policy = value->as_string();
  }
  if (const krm::Json* value = body.find("preconditions"); value != nullptr && !value->is_null()) {
    if (!value->is_object()) {
      return cannot_decode(
          std::string(krm::go_json_type(*value)) +
          " into Go struct field DeleteOptions.preconditions of type v1.Preconditions");
    }
    options.precondition_uid = value->text({"uid"});
    options.precondition_version = value->text({"resourceVersion"});
  }
  if (Expected<void> done = read_propagation(policy, orphan, options, causes); !done) {
    return done;
  }
  std::vector<std::string> dry_run;
  if (const krm::Json* value = body.find("dryRun"); value != nullptr && !value->is_null()) {
    if (!value->is_array()) {
      return cannot_decode(std::string(krm::go_json_type(*value)) +
                           " into Go struct field DeleteOptions.dryRun of type []string");
    }
    for (const krm::Json& item : value->items()) {
      dry_run.emplace_back(item.as_string());
    }
  }
  read_dry_run(dry_run, options.dry_run, causes);
  return {};
}

krm::Json options_document(std::string_view kind, bool dry_run) {
  krm::Json out =
      krm::Json::object({{"kind", kind}, {"apiVersion", std::string(kMetaGroup) + "/v1"}});
  if (dry_run) {
    out["dryRun"].push_back("All");
  }
  return out;
}

}  // namespace

Expected<store::Revision> parse_resource_version(std::string_view text) {
  if (text.empty()) {
    return store::Revision{0};
  }
  if (const std::optional<store::Revision> value = parse_decimal(text)) {
    return *value;
  }
  const bool digits =
      std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
  const std::string quoted = krm::go_quote(text);
  return fail(krm::unclassified("resourceVersion: Invalid value: " + quoted +
                                ": strconv.ParseUint: parsing " + quoted +
                                (digits ? ": value out of range" : ": invalid syntax")));
}

Expected<store::Revision> parse_get_version(const krm::Query& query) {
  return parse_resource_version(query.get("resourceVersion").value_or(""));
}

Expected<ListOptions> parse_list_options(const krm::Query& query, bool watch) {
  ListOptions options;
  options.label_selector = query.get("labelSelector").value_or("");
  options.field_selector = query.get("fieldSelector").value_or("");
  options.resource_version = query.get("resourceVersion").value_or("");
  options.continue_token = query.get("continue").value_or("");
  if (const auto flag = query.get("allowWatchBookmarks")) {
    options.allow_bookmarks = parse_flag(*flag);
  }
  if (const auto flag = query.get("sendInitialEvents")) {
    options.send_initial_events = parse_flag(*flag);
  }
  auto limit = optional_int(query, "limit");
  if (!limit) {
    return fail(std::move(limit.error()));
  }
  options.limit = std::max<std::int64_t>(limit->value_or(0), 0);
  auto timeout = optional_int(query, "timeoutSeconds");
  if (!timeout) {
    return fail(std::move(timeout.error()));
  }
  options.timeout_seconds = *timeout;
  const std::string_view match = query.get("resourceVersionMatch").value_or("");
  std::vector<Cause> causes;
  if (watch) {
    check_watch_match(options, match, causes);
  } else {
    check_list_match(options, match, causes);
  }
  if (!causes.empty()) {
    return invalid_options("ListOptions", std::move(causes));
  }
  if (match == "Exact") {
    options.match = VersionMatch::kExact;
  } else if (match == "NotOlderThan") {
    options.match = VersionMatch::kNotOlderThan;
  }
  Expected<store::Revision> revision = parse_resource_version(options.resource_version);
  if (!revision) {
    if (watch) {
      return fail(std::move(revision.error()));
    }
    return fail(
        krm::bad_request("invalid resource version: " + std::string(revision.error().message())));
  }
  options.revision = *revision;
  if (!watch && !options.continue_token.empty()) {
    if (Expected<void> token = ContinueToken::check(options.continue_token); !token) {
      return fail(std::move(token.error()));
    }
  }
  if (!watch && !options.continue_token.empty() && options.revision != 0) {
    return fail(krm::bad_request("specifying resource version is not allowed when using continue"));
  }
  return options;
}

Expected<WriteOptions> parse_write_options(const krm::Query& query, std::string_view kind,
                                           bool apply_patch) {
  WriteOptions options;
  std::vector<Cause> causes;
  options.field_manager = query.get("fieldManager").value_or("");
  if (const auto force = query.get("force"); force && kind == "PatchOptions") {
    options.force = parse_flag(*force);
    if (!apply_patch) {
      causes.push_back(forbidden_cause("force", "may not be specified for non-apply patch"));
    }
  }
  if (apply_patch && options.field_manager.empty()) {
    causes.push_back(krm::field_required("fieldManager", "is required for apply patch"));
  }
  check_manager(options.field_manager, causes);
  read_dry_run(dry_run_values(query), options.dry_run, causes);
  const std::string_view validation = query.get("fieldValidation").value_or("");
  if (validation == "Strict") {
    options.validation = FieldValidation::kStrict;
  } else if (validation == "Ignore") {
    options.validation = FieldValidation::kIgnore;
  } else if (!validation.empty() && validation != "Warn") {
    causes.push_back(
        krm::field_not_supported("fieldValidation", validation, {"", "Ignore", "Strict", "Warn"}));
  }
  if (!causes.empty()) {
    return invalid_options(kind, std::move(causes));
  }
  return options;
}

Expected<DeleteOptions> parse_delete_options(const krm::Query& query, const krm::Json* body) {
  DeleteOptions options;
  std::vector<Cause> causes;
  if (body != nullptr) {
    if (Expected<void> done = read_delete_body(*body, options, causes); !done) {
      return fail(std::move(done.error()));
    }
  } else {
    if (auto grace = optional_int(query, "gracePeriodSeconds"); !grace) {
      return fail(std::move(grace.error()));
    }
    std::optional<bool> orphan;
    if (const auto flag = query.get("orphanDependents")) {
      orphan = parse_flag(*flag);
    }
    if (Expected<void> done =
            read_propagation(query.get("propagationPolicy"), orphan, options, causes);
        !done) {
      return fail(std::move(done.error()));
    }
    read_dry_run(dry_run_values(query), options.dry_run, causes);
  }
  if (!causes.empty()) {
    return invalid_options("DeleteOptions", std::move(causes));
  }
  return options;
}

Expected<Duration> parse_timeout(const krm::Query& query) {
  const std::optional<std::string_view> text = query.get("timeout");
  if (!text || text->empty()) {
    return Duration(kMaxTimeout);
  }
  const std::optional<std::int64_t> value = parse_go_duration_ns(*text);
  if (!value) {
    const bool no_unit = text->find_first_not_of("0123456789.") == std::string_view::npos;
    return fail(
        krm::bad_request("invalid timeout specified in the request URL - time: " +
                         std::string(no_unit ? "missing unit in duration " : "invalid duration ") +
                         krm::go_quote(*text)));
  }
  const Duration given{*value};
  return given <= Duration::zero() || given > kMaxTimeout ? Duration(kMaxTimeout) : given;
}

std::string field_manager(const WriteOptions& options, std::string_view user_agent) {
  if (!options.field_manager.empty()) {
    return options.field_manager;
  }
  const std::string_view prefix = user_agent.substr(0, user_agent.find('/'));
  std::string manager;
  for (const char c : prefix) {
    if (static_cast<unsigned char>(c) >= 0x20 && c != 0x7f && manager.size() < kMaxManager) {
      manager += c;
    }
  }
  return manager.empty() ? "unknown" : manager;
}

krm::Json write_options_document(const WriteOptions& options, bool create) {
  krm::Json out = options_document(create ? "CreateOptions" : "UpdateOptions", options.dry_run);
  if (!options.field_manager.empty()) {
    out["fieldManager"] = options.field_manager;
  }
  if (options.validation != FieldValidation::kWarn) {
    out["fieldValidation"] = options.validation == FieldValidation::kStrict ? "Strict" : "Ignore";
  }
  return out;
}

krm::Json delete_options_document(const DeleteOptions& options) {
  krm::Json out = options_document("DeleteOptions", options.dry_run);
  if (!options.precondition_uid.empty()) {
    out.make({"preconditions", "uid"}) = options.precondition_uid;
  }
  if (!options.precondition_version.empty()) {
    out.make({"preconditions", "resourceVersion"}) = options.precondition_version;
  }
  if (options.propagation != Propagation::kDefault) {
    out["propagationPolicy"] = options.propagation == Propagation::kOrphan       ? "Orphan"
                               : options.propagation == Propagation::kForeground ? "Foreground"
                                                                                 : "Background";
  }
  return out;
}

}  // namespace kintsugi::apiserver::internal
