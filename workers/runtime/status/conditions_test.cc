#include "workers/runtime/status/conditions.h"

#include <gtest/gtest.h>

#include "krm/json_patch.h"
#include "krm/merge_patch.h"
#include "workers/runtime/status/finalizers.h"
#include "workers/runtime/status/status_write.h"

namespace kintsugi::workers {
namespace {

using krm::Json;

constexpr std::string_view kThen = "2026-01-02T03:04:05Z";
constexpr std::string_view kNow = "2026-01-02T03:05:00Z";

Json parse(std::string_view text) {
  Expected<Json> value = Json::parse(text);
  EXPECT_TRUE(value) << text;
  return value ? std::move(*value) : Json();
}

ConditionRules rules() { return {{"Ready", "Placed", "Reachable"}, nullptr}; }

std::string types(const Json& status) {
  std::string out;
  for (const Json& one : status.find("conditions")->items()) {
    out += std::string(one.text({"type"})) + " ";
  }
  return out;
}

TEST(Conditions, RT80_ANewOneHasAllFields) {
  Json status;
  EXPECT_TRUE(set_condition(status, rules(),
                            {"Ready", ConditionStatus::kFalse, "PeerDown", "router r1 is gone", 4},
                            kNow));
  EXPECT_EQ(
      status.dump(),
      R"({"conditions":[{"lastTransitionTime":"2026-01-02T03:05:00Z","message":"router r1 is gone",)"
      R"("observedGeneration":4,"reason":"PeerDown","status":"False","type":"Ready"}]})");
}

TEST(Conditions, RT80_TimeChangesWithTheStatusOnly) {
  Json status;
  set_condition(status, rules(), {"Ready", ConditionStatus::kFalse, "A", "m", 1}, kThen);
  EXPECT_FALSE(
      set_condition(status, rules(), {"Ready", ConditionStatus::kFalse, "A", "m", 1}, kNow));
  EXPECT_TRUE(
      set_condition(status, rules(), {"Ready", ConditionStatus::kFalse, "B", "n", 2}, kNow));
  EXPECT_EQ(find_condition(status, "Ready")->text({"lastTransitionTime"}), kThen);
  EXPECT_EQ(find_condition(status, "Ready")->text({"reason"}), "B");
  EXPECT_TRUE(set_condition(status, rules(), {"Ready", ConditionStatus::kTrue, "B", "n", 2}, kNow));
  EXPECT_EQ(find_condition(status, "Ready")->text({"lastTransitionTime"}), kNow);
}

TEST(Conditions, RT80_OrderIsFixedAndForeignTypesStay) {
  Json status = parse(R"({"conditions":[{"type":"Foreign","status":"True"},
      {"type":"Reachable","status":"True"},{"type":"Other","status":"True"}],"x":1})");
  set_condition(status, rules(), {"Placed", ConditionStatus::kTrue, "A", "", 1}, kNow);
  set_condition(status, rules(), {"Ready", ConditionStatus::kTrue, "A", "", 1}, kNow);
  EXPECT_EQ(types(status), "Ready Placed Reachable Foreign Other ");
  EXPECT_EQ(status.find("x")->as_integer(), 1);
  EXPECT_TRUE(drop_condition(status, "Placed"));
  EXPECT_FALSE(drop_condition(status, "Placed"));
  EXPECT_EQ(types(status), "Ready Reachable Foreign Other ");
}

TEST(Conditions, RT80_ReasonIsCamelCaseAndMessageAtMost1024Bytes) {
  Json status;
  const auto reason = [&](std::string_view text) {
    set_condition(status, rules(), {"Ready", ConditionStatus::kTrue, text, "", 1}, kNow);
    return std::string(find_condition(status, "Ready")->text({"reason"}));
  };
  EXPECT_EQ(reason(""), "Unknown");
  EXPECT_EQ(reason("peer is-down 2"), "PeerIsDown2");
  EXPECT_EQ(reason("3"), "Unknown");
  EXPECT_EQ(reason("AlreadyGood"), "AlreadyGood");
  set_condition(status, rules(),
                {"Ready", ConditionStatus::kTrue, "A", std::string(1'023, 'x') + "\xC3\xA9", 1},
                kNow);
  EXPECT_EQ(find_condition(status, "Ready")->text({"message"}), std::string(1'023, 'x'));
}

TEST(Conditions, RT84_RT_T103_MessagesHaveNoSecrets) {
  Redactor redactor;
  ASSERT_TRUE(redactor.know("a", Secret::copy_of("hunter2hunter2")));
  Json status;
  set_condition(status, {{"Ready"}, &redactor},
                {"Ready", ConditionStatus::kFalse, "A", "refused: hunter2hunter2\x02", 1}, kNow);
  EXPECT_EQ(find_condition(status, "Ready")->text({"message"}), "refused: ***");
}

TEST(Status, RT81_SameMeaningIsNoWrite) {
  const Json a = parse(R"({"conditions":[{"type":"A","status":"True","lastTransitionTime":"x"},
      {"type":"B","status":"False"}],"n":1,"list":[],"o":{"p":null,"q":{}}})");
  const Json b = parse(R"({"conditions":[{"type":"B","status":"False"},
      {"type":"A","status":"True","lastTransitionTime":"y"}],"n":1.0})");
  EXPECT_TRUE(same_status(a, b));
  EXPECT_TRUE(same_status(b, a));
  EXPECT_FALSE(status_patch(a, b));
  EXPECT_TRUE(same_status(Json(), Json::object()));
  for (
      const char* other :
      {R"({"n":1})",
       R"({"conditions":[{"type":"A","status":"True"},{"type":"B","status":"True"}],"n":1})",
       R"({"conditions":[{"type":"A","status":"True"},{"type":"B","status":"False"}],"n":2})",
       R"({"conditions":[{"type":"A","status":"True"},{"type":"B","status":"False"}],"n":1,"list":[0]})"}) {
    EXPECT_FALSE(same_status(b, parse(other))) << other;
    EXPECT_FALSE(same_status(parse(other), b)) << other;
  }
}

TEST(Status, RT81_ReadyTransitionsAreTold) {
  const Json none = Json::object();
  const Json yes = parse(R"({"conditions":[{"type":"Ready","status":"True"}]})");
  const Json no = parse(R"({"conditions":[{"type":"Ready","status":"False","message":"m"}]})");
  EXPECT_TRUE(is_transition(none, yes, "Ready"));
  EXPECT_TRUE(is_transition(yes, no, "Ready"));
  EXPECT_FALSE(is_transition(no, no, "Ready"));
  EXPECT_FALSE(is_transition(yes, no, "Placed"));
}

TEST(Status, RT82_PatchHasTheDifferenceAndThePreconditionThatWasAskedFor) {
  const Json from = parse(R"({"a":1,"b":[1,2],"c":"gone"})");
  const Json to = parse(R"({"a":1,"b":[2]})");
  const auto plain = status_patch(from, to);
  ASSERT_TRUE(plain);
  EXPECT_EQ(*plain, R"({"status":{"b":[2],"c":null}})");
  const auto guarded = status_patch(from, to, "41");
  ASSERT_TRUE(guarded);
  EXPECT_EQ(*guarded, R"({"metadata":{"resourceVersion":"41"},"status":{"b":[2],"c":null}})");
  EXPECT_EQ(krm::apply_merge_patch(from, *parse(*guarded).find("status")), to);
}

TEST(Status, RT85_ALargeOneIsSummarised) {
  Json status =
      parse(R"({"conditions":[{"type":"Ready","status":"True"}],"observedGeneration":3})");
  Json list = Json::array();
  for (int i = 0; i < 20'000; ++i) {
    list.push_back(Json::object({{"podName", Json("pod-" + std::to_string(i))}, {"vreplicas", 1}}));
  }
  status["placements"] = list;
  status["small"] = Json::array({"a", "b"});
  const Json whole = status;
  EXPECT_EQ(summarize_status(status),
            "placements: 20000 entries, first 10: pod-0, pod-1, pod-2, pod-3, pod-4, pod-5, pod-6, "
            "pod-7, pod-8, pod-9");
  EXPECT_LE(status.dump().size(), kMaxStatusBytes);
  EXPECT_EQ(status.find("placements")->size(), 10U);
  EXPECT_EQ(status.find("small")->size(), 2U);
  EXPECT_EQ(summarize_status(status), "");  // it fits now
  Json again = whole;
  EXPECT_NE(summarize_status(again), "");
  EXPECT_EQ(again, status);  // so that nothing is written again
}

TEST(Status, RT85_WhatCannotBeCutIsLeftOut) {
  Json status =
      parse(R"({"conditions":[{"type":"Ready","status":"True"}],"observedGeneration":3})");
  const Json rest = status;
  status["text"] = Json(std::string(300'000, 'x'));
  EXPECT_EQ(summarize_status(status), "all but the conditions left out");
  EXPECT_EQ(status, rest);
  Json map = Json::object();
  for (int i = 0; i < 30; ++i) {
    map["k" + std::to_string(10 + i)] = Json(std::string(20'000, 'y'));
  }
  status["map"] = map;
  EXPECT_EQ(summarize_status(status),
            "map: 30 entries, first 10: k10, k11, k12, k13, k14, k15, k16, k17, k18, k19");
  EXPECT_EQ(status.find("map")->size(), 10U);
}

Json applied(const Json& object, const std::optional<std::string>& patch) {
  EXPECT_TRUE(patch);
  const Expected<krm::JsonPatch> parsed = krm::JsonPatch::parse(patch.value_or("[]"));
  EXPECT_TRUE(parsed);
  const Expected<Json> out = parsed->apply(object);
  return out ? *out : Json("refused");
}

TEST(Finalizers, S66_OneIsAddedAndTakenAway_OthersStay) {
  const Json bare = parse(R"({"metadata":{"name":"a","uid":"u"}})");
  const auto add = add_finalizer_patch(bare, "k.dev/f");
  ASSERT_TRUE(add);
  EXPECT_EQ(*add, R"([{"op":"test","path":"/metadata/uid","value":"u"},)"
                  R"({"op":"test","path":"/metadata/finalizers","value":null},)"
                  R"({"op":"add","path":"/metadata/finalizers","value":["k.dev/f"]}])");
  const Json ours = applied(bare, add);
  EXPECT_TRUE(has_finalizer(ours, "k.dev/f"));
  EXPECT_FALSE(add_finalizer_patch(ours, "k.dev/f"));
  const Json many = parse(R"({"metadata":{"finalizers":["x","k.dev/f","y"]}})");
  const auto remove = remove_finalizer_patch(many, "k.dev/f");
  ASSERT_TRUE(remove);
  EXPECT_EQ(*remove, R"([{"op":"test","path":"/metadata/finalizers","value":["x","k.dev/f","y"]},)"
                     R"({"op":"remove","path":"/metadata/finalizers/1"}])");
  EXPECT_EQ(applied(many, remove).dump(), R"({"metadata":{"finalizers":["x","y"]}})");
  EXPECT_FALSE(remove_finalizer_patch(bare, "k.dev/f"));
  EXPECT_EQ(applied(many, add_finalizer_patch(many, "z")).at({"metadata", "finalizers"})->size(),
            4U);
  const Json empty = parse(R"({"metadata":{"finalizers":[]}})");
  EXPECT_EQ(applied(empty, add_finalizer_patch(empty, "z")).dump(),
            R"({"metadata":{"finalizers":["z"]}})");
}

TEST(Finalizers, S66_WhenTheObjectIsAnotherOne_NothingApplies) {
  const Json seen = parse(R"({"metadata":{"uid":"u","finalizers":["x","k.dev/f"]}})");
  const auto remove = remove_finalizer_patch(seen, "k.dev/f");
  const auto add = add_finalizer_patch(seen, "z");
  for (const char* other : {R"({"metadata":{"uid":"u","finalizers":["k.dev/f"]}})",
                            R"({"metadata":{"uid":"u","finalizers":["k.dev/f","x"]}})",
                            R"({"metadata":{"uid":"v","finalizers":["x","k.dev/f"]}})",
                            R"({"metadata":{"uid":"u"}})"}) {
    EXPECT_EQ(applied(parse(other), remove).as_string(), "refused") << other;
    EXPECT_EQ(applied(parse(other), add).as_string(), "refused") << other;
  }
}

TEST(Finalizers, S66_WhenTheObjectIsBeingDeleted_NoneIsAdded) {
  const Json going = parse(R"({"metadata":{"deletionTimestamp":"t","finalizers":["x"]}})");
  EXPECT_FALSE(add_finalizer_patch(going, "k.dev/f"));
  EXPECT_TRUE(remove_finalizer_patch(going, "x"));
}

}  // namespace
}  // namespace kintsugi::workers
