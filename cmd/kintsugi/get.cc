#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

#include "base/near_name.h"
#include "base/strings.h"
#include "cmd/kintsugi/admin_client.h"
#include "cmd/kintsugi/commands.h"
#include "cmd/kintsugi/flags.h"
#include "cmd/kintsugi/text_table.h"
#include "krm/age.h"

/// `kintsugi get` and `kintsugi explain`: what the admin listener of a running proxy tells,
/// for people.
namespace kintsugi::cmd {
namespace {

using krm::Json;
using Row = std::vector<std::string>;

constexpr int kNoSuchObject = 4;

struct Options {
  std::string admin;
  std::string output = "table";
  std::string method = "GET";
};

/// `-o` and `--output`, one of `allowed`.
std::vector<Flag> output_flags(Options& options, const std::vector<std::string>& allowed) {
  const auto set = [&options, allowed](std::string_view value) -> Expected<void> {
    for (const std::string& one : allowed) {
      if (one == value) {
        options.output = one;
        return {};
      }
    }
    return fail(Errc::kConfig,
                "\"" + std::string(value) + "\" is not one of " + join(allowed, ", "));
  };
  const std::string choice = join(allowed, "|");
  return {{"output", choice, "table", "form of what is printed", set},
          {"o", choice, "table", "the same", set}};
}

FlagTable get_table(Options& options) {
  std::vector<Flag> flags = output_flags(options, {"table", "wide", "json", "name"});
  flags.insert(flags.begin(), admin_flag(options.admin));
  return {{"Options", std::move(flags)}};
}

FlagTable explain_table(Options& options) {
  std::vector<Flag> flags = output_flags(options, {"table", "json"});
  flags.insert(flags.begin(), admin_flag(options.admin));
  flags.push_back(
      {"method", "GET|POST|…", "GET", "of the request that is explained", into(options.method)});
  return {{"Options", std::move(flags)}};
}

std::string number(const Json* value) {
  return std::to_string(value == nullptr ? 0 : value->as_integer());
}

std::string text_of(const Json& row, const char* member) { return std::string(row.text({member})); }

bool is_synced(const Json& shard) {
  const Json* resources = shard.find("resources");
  if (resources == nullptr) {
    return false;
  }
  for (const auto& [name, resource] : resources->members()) {
    const Json* synced = resource.find("synced");
    if (synced == nullptr || !synced->as_bool()) {
      return false;
    }
  }
  return true;
}

std::string labels_of(const Json& shard) {
  std::vector<std::string> out;
  if (const Json* labels = shard.find("labels")) {
    for (const auto& [key, value] : labels->members()) {
      out.push_back(key + "=" + std::string(value.as_string()));
    }
  }
  return join(out, ",");
}

/// "ClusterProfile fleet/berlin, member"
std::string source_of(const Json& shard) {
  const std::string object(shard.text({"source", "object"}));
  return object.empty() ? "" : object + ", " + std::string(shard.text({"source", "state"}));
}

Row shard_row(const Json& shard) {
  const Json* up = shard.find("up");
  const bool ready = up != nullptr && up->as_bool();
  const Json* days = shard.find("certificateDays");
  return {text_of(shard, "name"),
          ready ? (is_synced(shard) ? "yes" : "syncing") : "no",
          std::string(shard.text({"labels", "region"})),
          number(shard.find("logicalClusters")),
          text_of(shard, "cause"),
          days != nullptr ? number(days) : "-",
          text_of(shard, "baseURL"),
          number(shard.at({"consumers", "exports"})),
          labels_of(shard),
          source_of(shard)};
}

std::string shards_of(const Json& watch) {
  std::vector<std::string> out;
  if (const Json* shards = watch.find("shards")) {
    for (const Json& name : shards->items()) {
      out.emplace_back(name.as_string());
    }
  }
  return join(out, ",");
}

Row stream_row(const Json& watch) {
  const Json* age = watch.find("ageSeconds");
  return {text_of(watch, "user"),
          text_of(watch, "cluster"),
          shards_of(watch),
          age == nullptr ? "" : krm::age_text(age->as_integer()),
          number(watch.find("sentBytes")),
          number(watch.find("queueBytes")),
          text_of(watch, "path"),
          text_of(watch, "kind"),
          text_of(watch, "address"),
          text_of(watch, "loop")};
}

Row group_row(const Json& stream) {
  std::vector<std::string> shards;
  if (const Json* list = stream.find("shards")) {
    for (const Json& shard : list->items()) {
      const std::string state = text_of(shard, "state");
      shards.push_back(text_of(shard, "shard") + (state == "live" ? "" : " (" + state + ")"));
    }
  }
  const std::string query = text_of(stream, "query");
  return {text_of(stream, "user"),        text_of(stream, "route"),
          text_of(stream, "path"),        join(shards, ","),
          number(stream.find("readers")), number(stream.find("logBytes")),
          text_of(stream, "share"),       number(stream.find("streams")),
          text_of(stream, "loop"),        query};
}

Row route_row(const Json& route) {
  return {text_of(route, "path"), text_of(route, "route"), text_of(route, "handler"),
          text_of(route, "reason"), text_of(route, "example")};
}

/// What can be got. The first column is the name.
struct Kind {
  const char* name;
  const char* target;
  const char* list;  ///< member of the document
  Row columns;
  std::size_t usual;  ///< columns without -o wide
  bool sorted;        ///< by name; else as the proxy lists them
  Row (*row)(const Json& one);
  const char* cut = nullptr;  ///< member of the document: how many are left out of the list
};
const std::vector<Kind>& kinds() {
  static const std::vector<Kind> kKinds = {
      {"shards",
       "/debug/shards",
       "shards",
       {"NAME", "READY", "REGION", "CLUSTERS", "REASON", "CERT", "URL", "EXPORTS", "LABELS",
        "SOURCE"},
       5,
       true,
       shard_row},
      {"streams",
       "/debug/streams",
       "watches",
       {"USER", "CLUSTER", "SHARDS", "AGE", "SENT", "QUEUE", "PATH", "KIND", "ADDRESS", "LOOP"},
       7,
       false,
       stream_row,
       "watchesCut"},
      {"groups",
       "/debug/streams",
       "mergedWatches",
       {"USER", "ROUTE", "PATH", "SHARDS", "READERS", "LOG", "SHARE", "STREAMS", "LOOP", "QUERY"},
       6,
       true,
       group_row},
      {"routes",
       "/debug/routes",
       "routes",
       {"PATH", "ROUTE", "HANDLER", "REASON", "EXAMPLE"},
       3,
       false,
       route_row},
  };
  return kKinds;
}

std::vector<std::string> kind_names() {
  std::vector<std::string> out;
  for (const Kind& kind : kinds()) {
    out.emplace_back(kind.name);
  }
  return out;
}

int print_kind(const Kind& kind, const Options& options, const std::string& name) {
  auto document = ask_admin(admin_socket(options.admin), kind.target);
  if (!document) {
    return complain("get", document.error());
  }
  const Json* list = document->find(kind.list);
  Json kept = Json::array();
  std::vector<Row> rows;
  const Json none = Json::array();
  for (const Json& one : (list == nullptr ? none : *list).items()) {
    Row row = kind.row(one);
    if (name.empty() || row.front() == name) {
      rows.push_back(std::move(row));
      kept.push_back(one);
    }
  }
  if (kind.sorted) {
    std::sort(rows.begin(), rows.end());
  }
  if (rows.empty() && !name.empty()) {
    return complain("get", "no " + std::string(kind.name) + " named \"" + name + "\"",
                    kNoSuchObject);
  }
  if (options.output == "json") {
    std::fputs(kept.dump_pretty().c_str(), stdout);
    return 0;
  }
  if (options.output == "name") {
    for (const Row& row : rows) {
      std::printf("%s\n", row.front().c_str());
    }
    return 0;
  }
  if (rows.empty()) {
    std::fprintf(stderr, "No %s.\n", kind.name);
    return 0;
  }
  if (kind.cut != nullptr && number(document->find(kind.cut)) != "0") {
    std::fprintf(stderr, "%s more are not shown: those that wait for less, and are younger.\n",
                 number(document->find(kind.cut)).c_str());
  }
  rows.insert(rows.begin(), kind.columns);
  if (options.output == "table") {
    for (Row& row : rows) {
      row.resize(kind.usual);
    }
  }
  std::fputs(text_table(rows).c_str(), stdout);
  return 0;
}

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

}  // namespace

CommandAbout get_about() {
  Options options;
  return {"kintsugi get shards|streams|groups|routes [NAME] [options]",
          "What a running proxy knows, asked at its admin socket.\n"
          "shards   whether each answers, how many logical clusters it holds, why not\n"
          "streams  watches that are running: whose, of what, what they were sent, what waits\n"
          "groups   merged watches that share streams: whose, of what, how many read them\n"
          "routes   what each form of path leads to",
          kind_names(), without_setters(get_table(options))};
}

int run_get(const std::vector<std::string>& arguments) {
  Options options;
  const auto words = take_arguments("get", get_table(options), get_about, arguments);
  if (!words) {
    return words.error();
  }
  if (words->empty() || words->size() > 2) {
    return wrong_usage("get", "say what: one of " + join(kind_names(), ", "));
  }
  for (const Kind& kind : kinds()) {
    if (words->front() == kind.name) {
      return print_kind(kind, options, words->size() == 2 ? words->back() : std::string());
    }
  }
  const std::string near = nearest_name(words->front(), kind_names());
  return wrong_usage("get", "\"" + words->front() + "\" cannot be got; " +
                                (near.empty() ? "say one of " + join(kind_names(), ", ")
                                              : "did you mean " + near + "?"));
}

CommandAbout explain_about() {
  Options options;
  return {
      "kintsugi explain PATH [options]",
      "Where a request would go and why, as the running proxy decides it: a line for each step, "
      "then what\nbecomes of it. PATH is a workspace (root:org), a path of a URL "
      "(/clusters/root:org/api) or a URL.\nStatus 4: it leads nowhere.",
      {},
      without_setters(explain_table(options))};
}

int run_explain(const std::vector<std::string>& arguments) {
  Options options;
  const auto words = take_arguments("explain", explain_table(options), explain_about, arguments);
  if (!words) {
    return words.error();
  }
  if (words->size() != 1 || words->front().empty()) {
    return wrong_usage("explain", "say one workspace or path of a URL");
  }
  auto document =
      ask_admin(admin_socket(options.admin), "/explain?path=" + percent_encode(words->front()) +
                                                 "&method=" + percent_encode(options.method));
  if (!document) {
    return complain("explain", document.error());
  }
  const Json* found = document->find("result");
  const Json result = found == nullptr ? Json::object({}) : *found;
  if (options.output == "json") {
    std::fputs(document->dump_pretty().c_str(), stdout);
  } else {
    std::vector<Row> rows = {{"SEGMENT", "SHARD", "CLUSTER", "WHAT", "FROM", "AGE"}};
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
  return result.text({"route"}) == "refused" ? kNoSuchObject : 0;
}

}  // namespace kintsugi::cmd
