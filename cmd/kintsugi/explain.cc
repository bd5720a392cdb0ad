#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include "base/strings.h"
#include "cmd/kintsugi/admin_client.h"
#include "cmd/kintsugi/commands.h"
#include "cmd/kintsugi/flags.h"
#include "cmd/kintsugi/output_flag.h"
#include "cmd/kintsugi/text_table.h"
#include "krm/age.h"

/// `kintsugi explain`: where a request goes, as the running proxy decides it (R-32, OP-111).
namespace kintsugi::cmd {
namespace {

using krm::Json;

constexpr int kNoSuchPlace = 4, kDenied = 5;

struct ExplainOptions {
  std::string admin, output;
  std::string method = "GET";
  std::string user;
  std::vector<std::string> groups;
};

FlagTable explain_table(ExplainOptions& options) {
  std::vector<Flag> flags = output_flags(options.output, {"table", "json", "yaml"});
  flags.insert(flags.begin(), admin_flag(options.admin));
  flags.push_back(
      {"method", "GET|POST|…", "GET", "of the request that is explained", into(options.method)});
  flags.push_back({"as", "USER", "", "whether that user may do it, as the shard says that decides",
                   into(options.user)});
  flags.push_back(
      {"as-group", "GROUP", "", "of that user; may be given several times", into(options.groups)});
  return {{"Options", std::move(flags)}};
}

std::string text_of(const Json& row, const char* member) { return std::string(row.text({member})); }

std::string age_of(const Json& step) {
  const Json* age = step.find("ageSeconds");
  return age == nullptr ? "" : krm::age_text(age->as_integer());
}

/// "root, shard-1"
std::string names_in(const Json& list) {
  std::vector<std::string> out;
  for (const Json& name : list.items()) {
    out.emplace_back(name.as_string());
  }
  return out.empty() ? "no shard" : join(out, ", ");
}

/// The last line: what becomes of the request, in words.
std::string outcome(const Json& result) {
  std::string line = text_of(result, "route");
  if (const Json* status = result.find("status")) {
    line += " with " + std::to_string(status->as_integer());
  }
  for (const auto& [member, before] :
       std::vector<std::pair<const char*, const char*>>{{"reason", ": "},
                                                        {"message", ": "},
                                                        {"shard", " to shard "},
                                                        {"upstream", " at "},
                                                        {"backend", " to "},
                                                        {"location", " to "}}) {
    if (const std::string text = text_of(result, member); !text.empty()) {
      line += before + text;
    }
  }
  for (const char* member : {"mergedOver", "unionOf", "anyOf"}) {
    if (const Json* names = result.find(member)) {
      line += " over " + names_in(*names);
    }
  }
  if (const Json* up = result.find("up"); up != nullptr && !up->as_bool()) {
    line += ", which is down";
  }
  if (const std::string right = text_of(result, "permission"); !right.empty()) {
    line += "; takes the right to " + right;
  }
  return line;
}

/// "get configmaps/one of namespace default in one", "enter one", "get /metrics in root"
std::string right_text(const Json& right) {
  const std::string cluster = " in " + text_of(right, "cluster");
  const std::string verb = text_of(right, "verb"), path = text_of(right, "path");
  if (verb == "access" && path == "/") {
    return "enter " + text_of(right, "cluster");
  }
  if (!path.empty()) {
    return verb + " " + path + cluster;
  }
  std::string text = verb + " " + text_of(right, "resource");
  for (const auto& [member, before] : std::vector<std::pair<const char*, const char*>>{
           {"group", "."}, {"subresource", "/"}, {"name", " "}, {"namespace", " of namespace "}}) {
    if (const std::string value = text_of(right, member); !value.empty()) {
      text += before + value;
    }
  }
  return text + cluster;
}

/// What the review says, as the last line and the status.
int tell_review(const Json& right, const Json& review) {
  const std::string user = text_of(review, "user");
  if (const std::string error = text_of(review, "error"); !error.empty()) {
    return complain("explain", "whether " + user + " may " + right_text(right) + ": " + error);
  }
  const Json* const allowed = review.find("allowed");
  if (allowed == nullptr) {
    std::printf("%s: nobody is asked: %s\n", user.c_str(), text_of(review, "why").c_str());
    return 0;
  }
  const std::string reason = text_of(review, "reason");
  std::printf("%s %s %s%s\n", user.c_str(), allowed->as_bool() ? "may" : "may not",
              right_text(right).c_str(), (reason.empty() ? "" : ": " + reason).c_str());
  return allowed->as_bool() ? 0 : kDenied;
}

}  // namespace

CommandAbout explain_about() {
  ExplainOptions options;
  return {
      "kintsugi explain PATH [options]",
      "Where a request would go and why, as the running proxy decides it: a line for each step, "
      "then what\nbecomes of it. PATH is a workspace (root:org), a path of a URL "
      "(/clusters/root:org/api) or a URL.\nWith --as the last line says whether "
      "somebody may.\nStatus 4: it leads nowhere. 5: that user may not.",
      {},
      without_setters(explain_table(options))};
}

int run_explain(const std::vector<std::string>& arguments) {
  ExplainOptions options;
  const auto words = take_arguments("explain", explain_table(options), explain_about, arguments);
  if (!words) {
    return words.error();
  }
  if (words->size() != 1 || words->front().empty()) {
    return wrong_usage("explain", "say one workspace or path of a URL");
  }
  if (options.user.empty() && !options.groups.empty()) {
    return wrong_usage("explain", "--as-group: say --as, too");
  }
  std::string target = "/explain?path=" + percent_encode(words->front()) +
                       "&method=" + percent_encode(options.method);
  target += options.user.empty() ? "" : "&as=" + percent_encode(options.user);
  for (const std::string& group : options.groups) {
    target += "&as-group=" + percent_encode(group);
  }
  auto document = ask_admin(admin_socket(options.admin), target);
  if (!document) {
    return complain("explain", document.error());
  }
  const Json* found = document->find("result");
  const Json result = found == nullptr ? Json::object({}) : *found;
  const bool is_document = print_document(options.output, *document);
  if (!is_document) {
    std::vector<std::vector<std::string>> rows = {
        {"SEGMENT", "SHARD", "CLUSTER", "WHAT", "FROM", "AGE"}};
    if (const Json* steps = document->find("steps")) {
      for (const Json& step : steps->items()) {
        rows.push_back({text_of(step, "segment"), text_of(step, "shard"), text_of(step, "cluster"),
                        text_of(step, "note"), text_of(step, "source"), age_of(step)});
      }
    }
    if (rows.size() > 1) {
      std::fputs((text_table(rows) + "\n").c_str(), stdout);
    }
    std::printf("%s\n", outcome(result).c_str());
  }
  if (result.text({"route"}) == "refused") {
    return kNoSuchPlace;
  }
  const Json* const review = document->find("review");
  const Json* const right = document->find("right");
  if (review == nullptr || right == nullptr) {
    return 0;
  }
  const Json* const allowed = review->find("allowed");
  if (is_document) {
    return review->find("error") != nullptr            ? 1
           : allowed != nullptr && !allowed->as_bool() ? kDenied
                                                       : 0;
  }
  return tell_review(*right, *review);
}

}  // namespace kintsugi::cmd
