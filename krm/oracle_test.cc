// Replays cases whose answers come from the reference libraries (e2e/oracles/patch). The files in
// testdata/oracle are a sample; KINTSUGI_PATCH_ORACLE names a folder with larger ones.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <string_view>

#include "krm/go_value.h"
#include "krm/json_patch.h"
#include "krm/json_path.h"
#include "krm/merge_patch.h"
#include "krm/request_info.h"
#include "krm/request_target.h"
#include "krm/selector.h"
#include "krm/strategic_merge.h"
#include "krm/types/builtin_types.h"

namespace kintsugi::krm {
namespace {

/// The answer of ours in the form of the case's own; "" when a case is of no concern.
using Answer = std::function<std::string(const Json& given)>;

/// Calls `ours` and `theirs` for every case of a file and compares.
void replay(const std::string& area, const Answer& ours, const Answer& theirs) {
  const char* folder = std::getenv("KINTSUGI_PATCH_ORACLE");
  const std::filesystem::path path =
      (folder != nullptr ? std::filesystem::path(folder)
                         : std::filesystem::path(__FILE__).parent_path() / "testdata/oracle") /
      (area + ".jsonl");
  std::ifstream file(path);
  ASSERT_TRUE(file) << path;
  std::string line;
  std::size_t cases = 0;
  std::size_t different = 0;
  while (std::getline(file, line)) {
    const Expected<Json> given = Json::parse(line);
    ASSERT_TRUE(given) << line;
    ++cases;
    const std::string expected = theirs(*given);
    const std::string got = ours(*given);
    if (expected != got && ++different <= 8) {
      ADD_FAILURE() << line << "\n  expected: " << expected << "\n  got:      " << got;
    }
  }
  EXPECT_GE(cases, 200U);
  EXPECT_EQ(different, 0U) << "of " << cases;
  ::testing::Test::RecordProperty("cases", static_cast<int>(cases));
}

std::string text_of(const Json& given, std::string_view name) {
  const Json* value = given.find(name);
  return value == nullptr || value->is_null() ? std::string() : std::string(value->as_string());
}

/// JSON text in our own form.
std::string canonical(const std::string& text) { return Json::parse(text)->dump(); }

std::string patched_or_error(const Json& given) {
  const std::string error = text_of(given, "error");
  return error.empty() ? canonical(text_of(given, "out")) : "error: " + error;
}

std::string matches_of(const Json& given, const std::function<bool(const Json& set)>& match) {
  std::string out;
  for (const Json& set : given.find("sets")->items()) {
    out += match(set) ? " true" : " false";
  }
  return out;
}

std::string matches_of(const Json& given) {
  std::string out;
  for (const Json& each : given.find("matches")->items()) {
    out += each.as_bool() ? " true" : " false";
  }
  return out;
}

TEST(Oracle, WhenJsonPatchIsApplied_AM194_AM196_AgreesWithReference) {
  replay(
      "json_patch",
      [](const Json& given) -> std::string {
        const Expected<JsonPatch> patch = JsonPatch::parse(text_of(given, "patch"));
        if (!patch) {
          return "error: decode";
        }
        const Expected<Json> out = patch->apply(*Json::parse(text_of(given, "doc")));
        return out ? out->dump() : "error: apply";
      },
      patched_or_error);
}

TEST(Oracle, WhenMergePatchIsApplied_AM202_AgreesWithReference) {
  replay(
      "merge_patch",
      [](const Json& given) -> std::string {
        const Expected<Json> patch = parse_merge_patch(text_of(given, "patch"));
        return patch ? apply_merge_patch(*Json::parse(text_of(given, "doc")), *patch).dump()
                     : "error: decode";
      },
      patched_or_error);
}

TEST(Oracle, WhenStrategicMergeIsApplied_AM207_AM215_AgreesWithReference) {
  replay(
      "strategic_merge",
      [](const Json& given) -> std::string {
        const SchemaPtr schema = builtin_schema(text_of(given, "version"), text_of(given, "kind"));
        Expected<Json> patch = parse_strategic_merge(text_of(given, "patch"));
        if (schema == nullptr || !patch) {
          return "no schema or no patch";
        }
        const Expected<Json> out =
            apply_strategic_merge(*schema, *Json::parse(text_of(given, "doc")), *patch);
        if (!out) {
          return "error: " + std::string(out.error().message());
        }
        return out->dump() + (given.find("shown") == nullptr ? "" : " " + go_value_text(*patch));
      },
      [](const Json& given) -> std::string {
        const std::string error = text_of(given, "error");
        if (!error.empty()) {
          return "error: " + (error == "lists of lists are not supported" ? "" : error);
        }
        return canonical(text_of(given, "out")) +
               (given.find("shown") == nullptr ? "" : " " + text_of(given, "shown"));
      });
}

TEST(Oracle, WhenLabelSelectorIsParsed_AM253_AM254_AgreesWithReference) {
  replay(
      "label_selector",
      [](const Json& given) -> std::string {
        const Expected<Selector> selector = Selector::parse(text_of(given, "text"));
        if (!selector) {
          return "error: " + std::string(selector.error().message());
        }
        return selector->to_string() +
               matches_of(given, [&](const Json& set) { return selector->matches(set); });
      },
      [](const Json& given) -> std::string {
        const std::string error = text_of(given, "error");
        return error.empty() ? text_of(given, "out") + matches_of(given) : "error: " + error;
      });
}

TEST(Oracle, WhenFieldSelectorIsParsed_AM256_AgreesWithReference) {
  replay(
      "field_selector",
      [](const Json& given) -> std::string {
        const Expected<FieldSelector> selector = FieldSelector::parse(text_of(given, "text"));
        if (!selector) {
          return "error: " + std::string(selector.error().message());
        }
        Json terms = Json::array();
        for (const FieldSelector::Term& term : selector->terms()) {
          terms.push_back(Json::array({term.field, term.not_equal ? "!=" : "=", term.value}));
        }
        return terms.dump() + matches_of(given, [&](const Json& set) {
                 return selector->matches(
                     [&](std::string_view field) { return set.text({field}); });
               });
      },
      [](const Json& given) -> std::string {
        const std::string error = text_of(given, "error");
        if (!error.empty()) {
          return "error: " + error;
        }
        Json terms = *given.find("terms");
        for (Json& term : terms.edit_items()) {
          Json& op = term.edit_items()[1];
          op = op.as_string() == "==" ? Json("=") : op;
        }
        return terms.dump() + matches_of(given);
      });
}

TEST(Oracle, WhenColumnPathIsFollowed_AM401_AgreesWithReference) {
  replay(
      "json_path",
      [](const Json& given) -> std::string {
        const Expected<JsonPath> path = JsonPath::compile(text_of(given, "path"));
        if (!path) {
          return "error";
        }
        const Expected<Json> document = Json::parse(text_of(given, "doc"));
        const Json* found = path->first(*document);
        return found == nullptr ? "nothing" : found->dump();
      },
      [](const Json& given) -> std::string {
        if (given.find("error") != nullptr) {
          return "error";
        }
        const Json* out = given.find("out");
        return out->is_null() ? "nothing" : canonical(std::string(out->as_string()));
      });
}

TEST(Oracle, WhenPathIsUnderstood_AM036_AgreesWithReference) {
  replay(
      "request_path",
      [](const Json& given) -> std::string {
        const RequestInfo info =
            parse_request_info(text_of(given, "method"), text_of(given, "target"));
        if (!info.is_resource) {
          return "no resource, " + info.verb;
        }
        return Json::object({{"resource_request", true},
                             {"verb", info.verb},
                             {"prefix", info.api_prefix},
                             {"group", info.group},
                             {"version", info.version},
                             {"namespace", info.ns},
                             {"resource", info.resource},
                             {"subresource", info.subresource},
                             {"name", info.name}})
            .dump();
      },
      [](const Json& given) -> std::string {
        const Json& out = *given.find("out");
        if (!out.find("resource_request")->as_bool()) {
          return "no resource, " + std::string(out.text({"verb"}));
        }
        return out.dump();
      });
}

/// What the target is for, or that ours refuses it, which it may always do: it has to be sent anew,
/// or nobody is there.
std::string target_or_refused(const Json& given, TargetRules rules) {
  const std::string method = text_of(given, "method");
  const std::string target = text_of(given, "target");
  const RequestTarget parsed = parse_target(method, target, rules);
  const bool ours = parsed.service != VirtualWorkspace::kOther &&
                    parsed.service != VirtualWorkspace::kAdmin;  // others' paths are their own
  const bool named =
      parsed.form == TargetForm::kCluster || (parsed.form == TargetForm::kService && ours);
  if (parsed.fault != TargetFault::kNone || !named ||
      (parsed.cluster != "*" && !is_workspace_path(parsed.cluster))) {
    return "refused";
  }
  if (parsed.form == TargetForm::kService) {
    const auto& service = parsed.path;
    if (service == nullptr || (!service->owner.empty() && !is_workspace_path(service->owner))) {
      return "refused";
    }
  }
  // Read again in the form in which it is compared and served: SE-023, SE-025.
  const std::string plain = canonical_target(target, parsed);
  const RequestTarget again = parse_target(method, plain, rules);
  const RequestInfo info = request_info_of(method, target, parsed);
  const RequestInfo second = request_info_of(method, plain, again);
  const auto text = [](const RequestTarget& of, const RequestInfo& one) {
    std::string out = of.cluster + " " + one.verb + (of.is_watch ? " watches" : "");
    return !one.is_resource ? out + " no resource"
                            : out + " " + one.group + "/" + one.version + "/" + one.ns + "/" +
                                  one.resource + "/" + one.subresource + "/" + one.name;
  };
  return text(parsed, info) == text(again, second)
             ? text(parsed, info)
             : text(parsed, info) + ", its canonical form " + text(again, second);
}

std::string target_of_reference(const Json& given, const std::string& ours) {
  const Json* out = given.find("out");
  if (ours == "refused") {
    return ours;
  }
  if (out == nullptr) {
    return "an error";
  }
  const std::string verb = text_of(*out, "verb");
  std::string text = text_of(*out, "cluster") + " " + verb;
  if (!out->find("resource_request")->as_bool()) {
    return text + " no resource";
  }
  return text + (verb == "watch" ? " watches " : " ") + text_of(*out, "group") + "/" +
         text_of(*out, "version") + "/" + text_of(*out, "namespace") + "/" +
         text_of(*out, "resource") + "/" + text_of(*out, "subresource") + "/" +
         text_of(*out, "name");
}

TEST(Oracle, WhenATargetIsAccepted_SE035_SE_T002_TheReferenceReadsTheSame) {
  for (const TargetRules rules : {TargetRules{}, TargetRules{.shard = true}}) {
    std::size_t accepted = 0;
    replay(
        "request_target",
        [&](const Json& given) {
          const std::string ours = target_or_refused(given, rules);
          accepted += ours == "refused" ? 0 : 1;
          return ours;
        },
        [&](const Json& given) {
          return target_of_reference(given, target_or_refused(given, rules));
        });
    EXPECT_GE(accepted, 150U);
  }
}

}  // namespace
}  // namespace kintsugi::krm
