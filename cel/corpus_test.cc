// What cel-go with the Kubernetes environment answers (e2e/oracles/cel), replayed.
// KINTSUGI_CEL_CORPUS names a larger file of the same form.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <map>
#include <string>

#include "cel/internal/program.h"
#include "cel/internal/value.h"
#include "krm/json.h"
#include "krm/structural.h"

namespace kintsugi::cel {
namespace {

using krm::Json;

/// Texts of parse errors and of errors in other libraries' words are compared by their beginning.
std::string comparable(std::string text) {
  for (const char* mark : {"Syntax error", "reserved identifier", "program instantiation failed"}) {
    if (const std::size_t place = text.find(mark); place != std::string::npos) {
      return text.substr(0, text.find(':') + 1) + " malformed";
    }
  }
  for (std::size_t place = text.find("selfType"); place != std::string::npos;
       place = text.find("selfType", place + 8)) {
    std::size_t end = place + 8;
    while (end < text.size() && text[end] >= '0' && text[end] <= '9') {
      text.erase(end, 1);
    }
  }
  for (const char* mark : {"error parsing regexp", "Illegal regex", "IP Address", "network address",
                           "unknown time zone"}) {
    if (const std::size_t place = text.find(mark); place != std::string::npos) {
      return mark;
    }
  }
  return text;
}

struct Replay {
  Json schema, self, old;
  krm::SchemaPtr structural;
  DeclarationPtr declaration;
  int cases = 0;
  std::map<std::string, int> faults;

  void fault(const char* what, const Json& expected, const std::string& got) {
    if (++faults[what] <= 40) {
      ADD_FAILURE() << what << ": " << expected.dump() << "\n got: " << got;
    }
  }

  void take(const std::string& line) {
    auto parsed = Json::parse(line);
    ASSERT_TRUE(parsed) << line;
    if (const Json* given = parsed->find("schema")) {
      schema = *given;
      self = *parsed->find("self");
      old = parsed->find("old") == nullptr ? Json() : *parsed->find("old");
      structural = krm::structural_schema(schema, false);
      declaration = declare(*structural, false);
      parsed->erase("schema");
      parsed->erase("self");
      parsed->erase("old");
    }
    ++cases;
    const std::string rule(parsed->text({"rule"}));
    if (rule.empty()) {
      return;  // an empty rule is no rule
    }
    const Compilation compiled = compile(rule, *declaration, false, TypeKind::kBool);
    const std::string error = comparable(std::string(parsed->text({"error"})));
    if (error != comparable(compiled.error)) {
      fault("compile", *parsed, compiled.error);
      return;
    }
    if (!compiled.program) {
      return;
    }
    const Json* estimate = parsed->find("estimate");
    const std::uint64_t wanted =
        estimate == nullptr ? 0 : std::strtoull(estimate->dump().c_str(), nullptr, 10);
    if (wanted != compiled.program->max_cost) {
      fault("estimate", *parsed, std::to_string(compiled.program->max_cost));
    }
    const Evaluation result = compiled.program->run(Value::from_json(self, *structural),
                                                    Value::from_json(old, *structural), 1'000'000);
    const std::string failure(parsed->text({"failure"}));
    if (failure.starts_with("internal error")) {
      return;  // a panic of the reference
    }
    if (!failure.empty()) {
      if (!result.value.is_error()) {
        fault("verdict", *parsed, result.value.print());
      } else if (comparable(std::string(result.value.text())) != comparable(failure)) {
        fault("text", *parsed, std::string(result.value.text()));
      }
    } else if (!result.value.is(Kind::kBool) ||
               result.value.is_true() != parsed->find("result")->as_bool()) {
      fault("verdict", *parsed, result.value.print());
    }
    const Json* cost = parsed->find("cost");
    const std::int64_t apart =
        static_cast<std::int64_t>(result.cost) - (cost == nullptr ? 0 : cost->as_integer());
    // Where a chain of names breaks off, the reference counts its steps by its own inner forms.
    const std::int64_t allowed = failure.empty() ? 0 : 2;
    if (!result.exceeded && std::abs(apart) > allowed) {
      fault("cost", *parsed, std::to_string(result.cost));
    }
  }

  void file(const std::string& path) {
    std::ifstream in(path);
    ASSERT_TRUE(in) << path;
    for (std::string line; std::getline(in, line);) {
      take(line);
    }
    std::cout << path << ": " << cases << " cases";
    for (const auto& [what, count] : faults) {
      std::cout << ", " << what << ' ' << count;
    }
    std::cout << '\n';
  }
};

TEST(Corpus, WhenReplayed_AM424_AgreesWithTheReference) {
  Replay replay;
  replay.file(std::filesystem::path(__FILE__).parent_path() / "testdata" / "corpus.jsonl");
  EXPECT_GT(replay.cases, 1000);
  if (const char* larger = std::getenv("KINTSUGI_CEL_CORPUS"); larger != nullptr) {
    replay.file(larger);
  }
}

}  // namespace
}  // namespace kintsugi::cel
