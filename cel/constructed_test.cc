#include "cel/internal/constructed.h"

#include <gtest/gtest.h>

#include <string>

#include "cel/admission.h"

namespace kintsugi::cel {
namespace {

/// What a MutatingAdmissionPolicy's expression makes (AM-334): JSON, or why there is none.
std::string made(std::string_view expression, ResultType wanted) {
  static const krm::Json object =
      *krm::Json::parse(R"({"metadata":{"name":"a"},"spec":{"items":[1,2],"m":{"k":"v"}}})");
  AdmissionEnvironment environment(true);
  ExpressionFault fault;
  const AdmissionExpressionPtr program =
      environment.compile(expression, wanted, {false, false}, fault);
  if (program == nullptr) {
    return fault.detail;
  }
  AdmissionInput input;
  input.object = &object;
  std::uint64_t cost = 0;
  const Expected<krm::Json> json = AdmissionEvaluation(environment, input).make(*program, cost);
  EXPECT_GT(cost, 0U) << expression;
  return json ? json->dump() : std::string(json.error().message());
}

std::string object(std::string_view expression) { return made(expression, ResultType::kObject); }
std::string patch(std::string_view expression) { return made(expression, ResultType::kPatch); }

TEST(Constructed, AM334_WhenObjectsAreMade_GiveTheirMembers) {
  EXPECT_EQ(object("Object{}"), "{}");
  EXPECT_EQ(object("Object{spec: Object.spec{n: 1 + 1, b: true, s: 'x', f: 0.5, z: null}}"),
            R"({"spec":{"b":true,"f":0.5,"n":2,"s":"x","z":null}})");
  EXPECT_EQ(object("Object{spec: Object.spec{parts: [Object.spec.parts{name: 'p'}]}}"),
            R"({"spec":{"parts":[{"name":"p"}]}})");
  EXPECT_EQ(object("Object{metadata: Object.metadata{labels: {'a/b': 'c'}}, spec: object.spec}"),
            R"({"metadata":{"labels":{"a/b":"c"}},"spec":{"items":[1,2],"m":{"k":"v"}}})");
  EXPECT_EQ(object("Object{?a: optional.of(1), ?b: optional.none()}"), R"({"a":1})");
}

TEST(Constructed, AM334_WhenPatchesAreMade_GiveTheirSteps) {
  EXPECT_EQ(patch("[JSONPatch{op: 'add', path: '/a', value: {'x': [1]}}]"),
            R"([{"op":"add","path":"/a","value":{"x":[1]}}])");
  EXPECT_EQ(patch("[JSONPatch{op: 'copy', from: '/a', path: '/b'}] + "
                  "[JSONPatch{op: 'remove', path: '/' + jsonpatch.escapeKey('a/b~c')}]"),
            R"([{"from":"/a","op":"copy","path":"/b"},{"op":"remove","path":"/a~1b~0c"}])");
  EXPECT_EQ(patch("[JSONPatch{op: 'add', path: '/s', value: Object.spec{n: 1}}]"),
            R"([{"op":"add","path":"/s","value":{"n":1}}])");
  EXPECT_EQ(patch("object.metadata.name == 'b' ? [JSONPatch{op: 'x', path: ''}] : []"), "[]");
}

TEST(Constructed, AM334_WhenTypesAreNotThere_IsRefused) {
  EXPECT_NE(object("Foo{}").find("undeclared reference to 'Foo'"), std::string::npos);
  EXPECT_NE(patch("[JSONPatch{nope: 1}]").find("undefined field 'nope'"), std::string::npos);
  EXPECT_NE(patch("[JSONPatch{op: 1}]")
                .find("expected type of field 'op' is 'string' but provided type is 'int'"),
            std::string::npos);
  EXPECT_EQ(object("Object.spec{}"), "must evaluate to Object but got Object.spec");
  EXPECT_EQ(patch("[1]"), "must evaluate to list(JSONPatch) but got list(int)");
  AdmissionEnvironment environment(true);
  for (const char* expression : {"Object{} == null", "jsonpatch.escapeKey('a') == 'a'"}) {
    ExpressionFault fault;
    EXPECT_EQ(environment.compile(expression, ResultType::kBool, {}, fault), nullptr);
    EXPECT_NE(fault.detail.find("undeclared reference"), std::string::npos) << fault.detail;
  }
}

TEST(Constructed, AM334_WhenAValueHasNoPlace_SaysSo) {
  EXPECT_EQ(object("Object{spec: Object.wrong{}}"),
            "type mismatch: unexpected type name \"Object.wrong\", expected \"Object.spec\", which "
            "matches field name path from root Object type");
  EXPECT_NE(object("Object{t: timestamp('2020-01-01T00:00:00Z')}").find("cannot be a part"),
            std::string::npos);
  EXPECT_EQ(object("Object{n: 1.0 / 2.0}"), R"({"n":0.5})");
  EXPECT_NE(object("Object{n: 1.0 / 0.0}").find("a number that JSON has none of"),
            std::string::npos);
  EXPECT_NE(patch("[JSONPatch{op: 'add', path: '/a', value: double('NaN')}]").find("a number"),
            std::string::npos);
  EXPECT_NE(object("Object{m: {1: 2}}").find("is not string"), std::string::npos);
  EXPECT_EQ(object("Object{a: object.nope}"), "no such key: nope");
  EXPECT_NE(patch("[JSONPatch{op: object.spec.items, path: ''}]").find("unexpected type"),
            std::string::npos);
}

TEST(Constructed, AM334_WhenAResultExplodes_IsRefused) {
  AdmissionEnvironment environment(true);
  ASSERT_EQ(environment.add_variable("v0", "[1,2,3,4,5,6,7,8]", {}), nullptr);
  for (int i = 1; i < 9; ++i) {
    const std::string one = "variables.v" + std::to_string(i - 1);
    ASSERT_EQ(environment.add_variable("v" + std::to_string(i),
                                       "[" + one + "," + one + "," + one + "," + one + "]", {}),
              nullptr);
  }
  ExpressionFault fault;
  const AdmissionExpressionPtr program =
      environment.compile("Object{a: variables.v8}", ResultType::kObject, {}, fault);
  ASSERT_NE(program, nullptr) << fault.detail;
  const AdmissionInput input;
  std::uint64_t cost = 0;
  const Expected<krm::Json> json = AdmissionEvaluation(environment, input).make(*program, cost);
  ASSERT_FALSE(json);
  EXPECT_EQ(json.error().message(), "the result is too large");
}

}  // namespace
}  // namespace kintsugi::cel
