// What costs Kubernetes next to nothing and takes long is stopped by its work; what is quick is
// not.
#include "cel/internal/call_work.h"

#include <gtest/gtest.h>

#include <string>

#include "cel/internal/program.h"
#include "krm/json.h"
#include "krm/structural.h"

namespace kintsugi::cel {
namespace {

using krm::Json;

constexpr std::uint64_t kLimit = 50'000;

class CallWork : public ::testing::Test {
 protected:
  CallWork()
      : schema_(krm::structural_schema(*Json::parse(R"({"type": "object", "properties": {
              "none": {"type": "array", "items": {"type": "integer"}},
              "ints": {"type": "array", "items": {"type": "integer"}},
              "doubles": {"type": "array", "items": {"type": "number"}},
              "names": {"type": "array", "items": {"type": "string"}},
              "set": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
              "rows": {"type": "array", "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["name"], "items": {"type": "object", "properties": {
                  "name": {"type": "string"}, "size": {"type": "integer"}}}},
              "byName": {"type": "object", "additionalProperties": {"type": "string"}},
              "long": {"type": "string"},
              "texts": {"type": "array", "items": {"type": "string"}}}})"),
                                       false)),
        declaration_(declare(*schema_, false)) {
    constexpr int kItems = 300;
    for (int i = 0; i < kItems; ++i) {
      const std::string name = "name-" + std::to_string(i);
      add("ints", Json(i));
      add("doubles", Json(1e300));
      add("names", Json(name));
      add("set", Json(name));
      add("rows", Json::object({{"name", name}, {"size", i}}));
      self_["byName"][name] = "value";
    }
    self_["none"] = Json::array({});
    self_["long"] = std::string(100'000, 'x');
    for (const char* end : {"a", "b"}) {
      add("texts", Json(std::string(100'000, 'x') + end));
    }
  }

  /// The rule inside of two loops over all numbers.
  [[nodiscard]] Evaluation repeated(const std::string& rule,
                                    std::uint64_t budget = UINT64_MAX) const {
    return run("self.ints.all(x, self.ints.all(y, " + rule + "))", budget);
  }
  [[nodiscard]] Evaluation run(const std::string& rule, std::uint64_t budget = UINT64_MAX) const {
    const Compilation made = compile(rule, *declaration_, false, TypeKind::kBool);
    EXPECT_TRUE(made.program) << made.error;
    const Json copy = self_;  // nothing is the same for being at one place
    return made.program ? made.program->run(Value::from_json(self_, *schema_),
                                            Value::from_json(copy, *schema_), kLimit, budget)
                        : Evaluation();
  }

 private:
  void add(const char* list, Json value) { self_[list].edit_items().push_back(std::move(value)); }

  krm::SchemaPtr schema_;
  DeclarationPtr declaration_;
  Json self_ = Json::object();
};

TEST_F(CallWork, WhenACallIsCheapAndLong_AM411_SE102_ItIsStoppedByItsWork) {
  for (const char* rule : {
           "'%s'.format([self.byName]) != ''",
           "'%s'.format([self.doubles]) != ''",
           "'%s'.format([self.long]) != ''",
           "'%s'.format([self.texts]) != ''",
           "[self.names, self.names].flatten() != []",
           "self.long.charAt(99999) == 'x'",
           "isURL(self.long) || true",
           "self.long.size() == 100000",
           "self.set + self.set != []",
           "self.rows + self.rows != []",
           "self.set == oldSelf.set",
           "self.rows == oldSelf.rows",
           "self.texts == oldSelf.texts",
           "self.texts[1] in self.texts",
           "optional.of(self.rows) == optional.of(oldSelf.rows)",
           "{self.long: 1}.size() == 1",
           "self.byName.?long.hasValue() || self.byName[?self.long] == optional.none()",
           "self.long.findAll('x').size() == 100000",
           "self.long.substring(99999) == 'x'",
           "'%s'.format([{'a': self.doubles}]) != ''",
           "optional.of(optional.of(self.byName)) == optional.of(optional.of(oldSelf.byName))",
           "self.names.all(n, n.matches(n + '(a{1,30}){1,30}') || true)",
           "self.long.matches('(.{0,200}z){2}') || true",
       }) {
    const Evaluation made = repeated(rule);
    EXPECT_TRUE(made.exceeded) << rule << ": " << made.value.print() << ", cost " << made.cost;
    EXPECT_LT(made.cost, kLimit) << rule << " costs enough";
    EXPECT_LE(made.steps, (kLimit + 1'000) * 4) << rule;
  }
}

TEST_F(CallWork, WhenListsAreMadeOfThemselves_AM411_WalkingThroughThemEnds) {
  const auto doubled = [](const char* list, const char* made) {
    std::string rule = "[" + std::string(list) + "]";
    for (int i = 0; i < 80; ++i) {
      rule += ".map(a, " + std::string(made) + ")";
    }
    return rule;
  };
  for (const char* list : {"self.ints", "self.none", "self.none + self.none"}) {
    const std::string sum = doubled(list, "a + a");
    for (const char* use : {"a.sum() > 0", "a == a + a", "'%s'.format([a]) == ''", "1 in a",
                            "a.isSorted()", "a.all(x, x > 0)", "a.size() > 0"}) {
      (void)run(sum + ".all(a, " + use + ")");  // comes to an end
    }
  }
  const std::string nested = doubled("dyn(self.ints)", "dyn([a, a])");
  for (const char* use : {"a == [a, a]", "'%s'.format([a]) == ''", "[a].flatten(90) == []",
                          "a in [a, a]", "sets.contains([a], [a])", "[a].distinct() == []"}) {
    EXPECT_TRUE(run(nested + ".all(a, " + use + ")").exceeded) << use;
  }
}

TEST_F(CallWork, WhenACallIsQuick_AM411_ItIsStoppedByItsCost) {
  for (const char* rule : {"self.ints.size() > 0", "self.names.first() == optional.of('name-0')",
                           "type(self.rows) == list", "self.ints + self.ints != []",
                           "self.long.startsWith('x')", "'name-1' in self.byName",
                           "optional.of(self.names).hasValue()", "self.byName.size() > 0"}) {
    const Evaluation made = repeated(rule);
    EXPECT_TRUE(made.exceeded) << rule;
    EXPECT_GT(made.cost, kLimit) << rule;
    EXPECT_LT(made.steps, kLimit * 4) << rule;
  }
}

TEST_F(CallWork, WhenABudgetIsNearlySpent_SE102_NoMoreIsDoneThanItPaysFor) {
  for (const std::uint64_t budget : {0ULL, 1ULL, 999ULL, 20'000ULL}) {
    const Evaluation made = repeated("self.rows == oldSelf.rows", budget);
    EXPECT_TRUE(made.exceeded) << budget;
    EXPECT_GT(made.charge, budget);
    EXPECT_LE(made.steps, budget * 3 + 100);
  }
}

TEST_F(CallWork, WhenMoreIsDoneThanItCosts_AM411_ABudgetIsChargedForIt) {
  const Evaluation made = run("self.rows == oldSelf.rows");
  EXPECT_FALSE(made.exceeded);
  EXPECT_TRUE(made.value.is_true());
  EXPECT_GT(made.charge, made.cost * 2);
}

}  // namespace
}  // namespace kintsugi::cel
