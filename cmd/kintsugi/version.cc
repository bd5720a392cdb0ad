// kintsugi version: what was built.
#include "base/version.h"

#include <cstdio>
#include <string>
#include <utility>

#include "base/strings.h"
#include "cmd/kintsugi/build_data.h"
#include "cmd/kintsugi/commands.h"
#include "krm/json.h"
#include "krm/version.h"

namespace kintsugi::cmd {
namespace {

struct Options {
  std::string output = "text";
};

FlagTable flag_table(Options& options) {
  return {{"Options",
           {{"output", "text|json", "text", "form of what is printed", into(options.output)},
            {"o", "text|json", "text", "the same", into(options.output)}}}};
}

BuildData& stored() {
  static BuildData data{product_version(), "unknown", "unknown", "", "", "", {}};
  return data;
}

/// "v1.36.0": the release of Kubernetes whose API is served.
std::string kubernetes_version() {
  const auto document = krm::Json::parse(krm::version_document());
  const std::string text(document ? document->text({"gitVersion"}) : "");
  return text.substr(0, text.find('+'));
}

}  // namespace

std::string version_json() {
  const BuildData& data = stored();
  krm::Json libraries = krm::Json::object({});
  for (const BuildData::Library& one : data.libraries) {
    libraries[one.name] = std::string(one.version);
  }
  krm::Json out = krm::Json::object({{"version", std::string(data.version)},
                                     {"gitCommit", std::string(data.git_commit)},
                                     {"gitTreeState", std::string(data.git_tree_state)},
                                     {"buildDate", std::string(data.build_date)},
                                     {"compiler", std::string(data.compiler)},
                                     {"platform", std::string(data.platform)},
                                     {"kubernetes", kubernetes_version()}});
  out["libraries"] = std::move(libraries);
  return out.dump_pretty();
}

void set_build_data(BuildData data) { stored() = std::move(data); }
const BuildData& build_data() { return stored(); }

CommandAbout version_about() {
  Options options;
  return {"kintsugi version [options]",
          "Prints the version; with -o json also commit, compiler, the release of Kubernetes whose "
          "API is\nserved, and the libraries that this was compiled with.",
          {},
          without_setters(flag_table(options))};
}

int run_version(const std::vector<std::string>& arguments) {
  Options options;
  if (const auto ended = take_options("version", flag_table(options), version_about, arguments)) {
    return *ended;
  }
  if (options.output != "text" && options.output != "json") {
    return wrong_usage("version", "--output: \"" + options.output + "\" is neither text nor json");
  }
  const std::string text = options.output == "json"
                               ? version_json()
                               : "kintsugi " + std::string(build_data().version) + "\n";
  std::fputs(text.c_str(), stdout);
  return 0;
}

}  // namespace kintsugi::cmd
