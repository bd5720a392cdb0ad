#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "krm/apply.h"
#include "krm/structural.h"

// Replays what e2e/oracles/apply has seen the field managers of Kubernetes do. The file kept here
// is a small part; KINTSUGI_APPLY_CASES names a larger one.
namespace kintsugi::krm {
namespace {

constexpr std::string_view kGroup = "ex.io/";

struct Tally {
  std::size_t cases = 0, steps = 0, applied = 0, conflicts = 0, refused = 0, ended = 0;
};

/// Errors that only the reference has: it cannot compare objects that do not fit a schema of an
/// older or newer version; here such fields are compared as they are. The case ends there.
bool is_conversion_fault(std::string_view error) {
  return !error.starts_with("failed to create typed patch object");
}

std::string sorted_lines(std::string_view text) {
  std::vector<std::string> lines;
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    lines.emplace_back(text.substr(at, end - at));
    at = end + 1;
  }
  std::sort(lines.begin(), lines.end());
  std::string out;
  for (const std::string& line : lines) {
    out += line + "\n";
  }
  return out;
}

/// managedFields sorted as the generator does, times as "T".
Json normalised(Json object) {
  Json* list = object.at({"metadata", "managedFields"});
  if (list != nullptr) {
    for (Json& entry : list->edit_items()) {
      if (entry.find("time") != nullptr) {
        entry["time"] = "T";
      }
    }
    std::sort(list->edit_items().begin(), list->edit_items().end(),
              [](const Json& a, const Json& b) {
                const auto key = [](const Json& entry) {
                  return std::string(entry.text({"operation"})) + "|" +
                         std::string(entry.text({"manager"})) + "|" +
                         std::string(entry.text({"apiVersion"})) + "|" +
                         std::string(entry.text({"subresource"}));
                };
                return key(a) < key(b);
              });
  }
  return object;
}

class Replay {
 public:
  explicit Replay(Tally& tally) : tally_(tally) {}

  /// "" or what went wrong.
  std::string run(const Json& test) {
    ++tally_.cases;
    for (const Json& versions : test.find("schemas")->items()) {
      std::map<std::string, SchemaPtr> made;
      for (const JsonMember& version : versions.members()) {
        made.emplace(version.key, structural_schema(version.value, true));
      }
      schemas_.push_back(std::move(made));
    }
    const Json* split = test.find("split");
    split_ = split != nullptr && split->as_bool();
    std::size_t index = 0;
    for (const Json& step : test.find("steps")->items()) {
      const std::string fault = replay(step);
      if (!fault.empty()) {
        return "step " + std::to_string(index) + ": " + fault;
      }
      if (ended_) {
        ++tally_.ended;
        return {};
      }
      ++tally_.steps;
      ++index;
    }
    return {};
  }

 private:
  std::string replay(const Json& step) {
    const Json* chosen = step.find("schema");
    const auto& versions =
        schemas_[chosen == nullptr ? 0 : static_cast<std::size_t>(chosen->as_integer())];
    const std::string version(step.text({"version"}));
    const std::string api_version = std::string(kGroup) + version;
    OwnershipContext context;
    context.schema = versions.at(version).get();
    context.manager = step.text({"manager"});
    context.api_version = api_version;
    context.now = "2026-01-01T00:00:00Z";
    context.subresource = step.text({"subresource"});
    if (split_) {
      context.part =
          context.subresource.empty() ? OwnedPart::kWithoutStatus : OwnedPart::kOnlyStatus;
    }
    context.schema_of = [&](std::string_view name) -> std::optional<const Schema*> {
      const auto found = versions.find(std::string(name.substr(kGroup.size())));
      return found == versions.end() ? std::nullopt
                                     : std::optional<const Schema*>(found->second.get());
    };
    Json live = live_;
    live["apiVersion"] = api_version;
    live["kind"] = "Thing";
    const std::string_view error = step.text({"error"});
    if (!error.empty() && is_conversion_fault(error)) {
      ended_ = true;
      return {};
    }
    if (step.text({"op"}) == "update") {
      Json object = *step.find("config");
      track_update(context, exists_ ? &live : nullptr, object);
      return store(step, std::move(object));
    }
    const Json* force = step.find("force");
    Expected<Json> applied = apply_configuration(context, force != nullptr && force->as_bool(),
                                                 live, *step.find("config"));
    if (!error.empty()) {
      ++tally_.refused;
      if (applied) {
        return "should be refused: " + std::string(error);
      }
      const std::string_view said = applied.error().message();
      // Which of several undeclared fields is named, and what is seen before it, is chance.
      const bool chance = error.find("not declared in schema") != std::string_view::npos;
      if (!chance && sorted_lines(said) != sorted_lines(error)) {
        return "wants " + std::string(error) + "\n  says " + std::string(said);
      }
      return {};
    }
    if (const Json* conflict = step.find("conflict")) {
      ++tally_.conflicts;
      return compare_conflict(*conflict, applied);
    }
    if (!applied) {
      return "refused: " + std::string(applied.error().message());
    }
    ++tally_.applied;
    return store(step, std::move(*applied));
  }

  static std::string compare_conflict(const Json& wanted, const Expected<Json>& applied) {
    if (applied) {
      return "should conflict: " + std::string(wanted.text({"message"}));
    }
    if (applied.error().code() != Errc::kConflict) {
      return "should conflict, says " + std::string(applied.error().message());
    }
    if (applied.error().message() != wanted.text({"message"})) {
      return "wants " + std::string(wanted.text({"message"})) + "\n  says " +
             std::string(applied.error().message());
    }
    std::vector<std::string> causes;
    for (const Cause& cause : applied.error().detail().causes) {
      causes.push_back(cause.message + " " + cause.field);
    }
    std::sort(causes.begin(), causes.end());
    Json list = Json::array();
    for (const std::string& cause : causes) {
      list.push_back(cause);
    }
    return list == *wanted.find("causes") ? "" : "causes: " + list.dump();
  }

  /// Keeps status and the rest apart, as the endpoints of a kind with a status do.
  [[nodiscard]] Json by_endpoint(std::string_view subresource, Json object) const {
    if (!split_) {
      return object;
    }
    Json out = object;
    const Json* status = live_.find("status");
    if (!subresource.empty()) {
      out = live_;
      out["apiVersion"] = *object.find("apiVersion");
      const Json* entries = object.at({"metadata", "managedFields"});
      out["metadata"].erase("managedFields");
      if (entries != nullptr) {
        out["metadata"]["managedFields"] = *entries;
      }
      status = object.find("status");
    }
    out.erase("status");
    if (status != nullptr) {
      out["status"] = *status;
    }
    return out;
  }

  std::string store(const Json& step, Json object) {
    object = by_endpoint(step.text({"subresource"}), std::move(object));
    const Json got = normalised(std::move(object));
    const Json* wanted = step.find("object");
    if (wanted == nullptr || !(got == *wanted)) {
      return "wants " + (wanted == nullptr ? "nothing" : wanted->dump()) + "\n  has   " +
             got.dump();
    }
    live_ = got;
    Json* list = live_.at({"metadata", "managedFields"});
    if (list != nullptr) {
      for (Json& entry : list->edit_items()) {
        if (entry.find("time") != nullptr) {
          entry["time"] = "2026-01-01T00:00:00Z";
        }
      }
    }
    exists_ = true;
    return {};
  }

  Tally& tally_;
  std::vector<std::map<std::string, SchemaPtr>> schemas_;
  Json live_ = Json::object();
  bool exists_ = false;
  bool ended_ = false;
  bool split_ = false;
};

TEST(ApplyOracle, WhenCasesOfTheReferenceAreReplayed_AM250_AllAgree) {
  const char* larger = std::getenv("KINTSUGI_APPLY_CASES");
  const std::string path =
      larger != nullptr
          ? larger
          : (std::filesystem::path(__FILE__).parent_path() / "testdata" / "apply_cases.jsonl")
                .string();
  std::ifstream file(path);
  ASSERT_TRUE(file.is_open()) << path;
  Tally tally;
  std::size_t failed = 0;
  std::string line;
  while (std::getline(file, line)) {
    const auto test = Json::parse(line);
    ASSERT_TRUE(test.has_value());
    const std::string fault = Replay(tally).run(*test);
    if (!fault.empty() && ++failed <= 5) {
      ADD_FAILURE() << "case " << tally.cases << ", " << fault << "\n" << line;
    }
  }
  EXPECT_EQ(failed, 0U) << "of " << tally.cases;
  EXPECT_GE(tally.cases, 200U);
  EXPECT_GE(tally.applied, tally.cases);
  EXPECT_GE(tally.conflicts, tally.cases / 20);
  EXPECT_LE(tally.ended, tally.cases / 5);
  RecordProperty("cases", static_cast<int>(tally.cases));
  RecordProperty("steps", static_cast<int>(tally.steps));
  if (larger != nullptr) {
    GTEST_LOG_(INFO) << tally.cases << " cases, " << tally.steps << " steps: " << tally.applied
                     << " applied, " << tally.conflicts << " conflicts, " << tally.refused
                     << " refused, " << tally.ended << " ended by a fault of the reference";
  }
}

}  // namespace
}  // namespace kintsugi::krm
