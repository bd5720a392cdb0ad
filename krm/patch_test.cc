#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <random>

#include "krm/json_patch.h"
#include "krm/merge_patch.h"
#include "krm/status.h"

namespace kintsugi::krm {
namespace {

std::string patched(std::string_view document, std::string_view patch) {
  const Expected<JsonPatch> parsed = JsonPatch::parse(patch);
  if (!parsed) {
    return std::string(parsed.error().message());
  }
  std::string why;
  const Expected<Json> out = parsed->apply(*Json::parse(document), &why);
  return out ? out->dump() : "refused: " + why;
}

bool refused(std::string_view document, std::string_view patch) {
  return patched(document, patch).starts_with("refused: ");
}

TEST(JsonPatch, WhenOperationsApply_FollowsRfc6902AM194) {
  EXPECT_EQ(patched(R"({"data":{"x":"1"}})", R"([{"op":"add","path":"/data/y","value":"2"}])"),
            R"({"data":{"x":"1","y":"2"}})");
  EXPECT_EQ(patched(R"({"a":1,"b":2})", R"([{"op":"remove","path":"/a"}])"), R"({"b":2})");
  EXPECT_EQ(patched(R"({"a":[1,2]})", R"([{"op":"replace","path":"/a/1","value":3}])"),
            R"({"a":[1,3]})");
  EXPECT_EQ(patched(R"({"a":{"b":1},"c":{}})", R"([{"op":"move","from":"/a/b","path":"/c/d"}])"),
            R"({"a":{},"c":{"d":1}})");
  EXPECT_EQ(patched(R"({"a":[1,2,3]})", R"([{"op":"move","from":"/a/0","path":"/a/2"}])"),
            R"({"a":[2,3,1]})");
  EXPECT_EQ(patched(R"({"a":{"b":1}})", R"([{"op":"copy","from":"/a","path":"/c"}])"),
            R"({"a":{"b":1},"c":{"b":1}})");
  EXPECT_EQ(patched(R"({"a":1})", R"([{"op":"test","path":"/a","value":1}])"), R"({"a":1})");
  EXPECT_EQ(patched(R"({"a":[1]})", R"([{"op":"add","path":"/a/-","value":2}])"), R"({"a":[1,2]})");
  EXPECT_EQ(patched(R"({"a":[1]})", R"([{"op":"add","path":"/a/0","value":2}])"), R"({"a":[2,1]})");
  EXPECT_EQ(
      patched(R"({"a/b":1,"c~d":2})",
              R"([{"op":"remove","path":"/a~1b"},{"op":"replace","path":"/c~0d","value":3}])"),
      R"({"c~d":3})");
  EXPECT_EQ(patched(R"({"a":1})", R"([{"op":"replace","path":"","value":{"b":2}}])"), R"({"b":2})");
  EXPECT_EQ(patched(R"({"a":1})", R"([{"op":"add","path":"","value":[]}])"), "[]");
  EXPECT_EQ(patched(R"({"a":1})", R"([{"op":"test","path":"","value":{"a":1}}])"), R"({"a":1})");
  EXPECT_EQ(patched(R"({"a":1})", R"([{"op":"add","path":"/","value":2}])"), R"({"":2,"a":1})");
}

TEST(JsonPatch, WhenReplacedMemberIsAbsent_IsAddedAM195) {
  EXPECT_EQ(patched(R"({"data":{}})", R"([{"op":"replace","path":"/data/none","value":"x"}])"),
            R"({"data":{"none":"x"}})");
  EXPECT_TRUE(refused("{}", R"([{"op":"replace","path":"/data/none","value":"x"}])"));
}

TEST(JsonPatch, WhenOperationDoesNotApply_IsRefusedAM196) {
  for (const char* patch : {
           R"([{"op":"remove","path":"/none"}])",
           R"([{"op":"test","path":"/a","value":3}])",
           R"([{"op":"test","path":"/a","value":1.0}])",
           R"([{"op":"test","path":"/l","value":[1,2.0]}])",
           R"([{"op":"test","path":"/o","value":{"p":1.0}}])",
           R"([{"op":"test","path":"/l/5","value":null}])",
           R"([{"op":"fly","path":"/a"}])",
           R"([{"path":"/a"}])",
           R"([{"op":"remove"}])",
           R"([{"op":"remove","path":""}])",
           R"([{"op":"add","path":"/l/3","value":1}])",
           R"([{"op":"add","path":"/l/x","value":1}])",
           R"([{"op":"add","path":"/l/-4","value":1}])",
           R"([{"op":"replace","path":"/l/2","value":1}])",
           R"([{"op":"add","path":"/none/x","value":1}])",
           R"([{"op":"add","path":"/a/x","value":1}])",
           R"([{"op":"move","from":"/none","path":"/b"}])",
           R"([{"op":"move","from":"/o","path":"/o/p"}])",
           R"([{"op":"copy","from":"/none/x","path":"/b"}])",
           R"([{"op":"copy","from":"/l/9","path":"/b"}])",
           R"([{"op":"copy","path":"/b"}])",
       }) {
    EXPECT_TRUE(refused(R"({"a":1,"l":[1,2],"o":{"p":1}})", patch)) << patch;
  }
  const Expected<Json> out =
      JsonPatch::parse(R"([{"op":"remove","path":"/x"}])")->apply(Json::object());
  ASSERT_FALSE(out);
  EXPECT_EQ(to_status(out.error()).at({"code"})->as_integer(), 422);
  EXPECT_EQ(to_status(out.error()).text({"message"}),
            "the server rejected our request due to an error in our request");
}

TEST(JsonPatch, WhenKubernetesIsLenient_SoAreWe) {
  EXPECT_EQ(patched(R"({"d":{}})", R"([{"op":"add","path":"/d/z"}])"), R"({"d":{"z":null}})");
  EXPECT_EQ(patched(R"({"d":{}})", R"([{"op":"add","path":"d/x","value":1}])"),
            R"({"d":{},"x":1})");
  EXPECT_EQ(patched(R"({"l":[1,2]})", R"([{"op":"replace","path":"/l/-1","value":9}])"),
            R"({"l":[1,9]})");
  EXPECT_EQ(patched("{}", R"([{"op":"test","path":"/a"}])"), "{}");
  EXPECT_EQ(patched("{}", R"([{"op":"copy","from":"/a","path":"/b"}])"), R"({"b":null})");
  EXPECT_EQ(patched("{}", "[]"), "{}");
}

TEST(JsonPatch, WhenBodyIsNoPatch_IsDecodeErrorAM198) {
  EXPECT_EQ(patched("{}", "{}"),
            "error decoding patch: json: cannot unmarshal object into Go value of type "
            "[]handlers.jsonPatchOp");
  EXPECT_EQ(patched("{}", "[1]"),
            "error decoding patch: json: cannot unmarshal number into Go value of type "
            "handlers.jsonPatchOp");
  EXPECT_EQ(patched("{}", R"([{"op":5,"path":"/a"}])"),
            "error decoding patch: json: cannot unmarshal number into Go struct field "
            "jsonPatchOp.op of type string");
  EXPECT_EQ(patched("{}", "[{"), "error decoding patch: unexpected end of JSON input");
  EXPECT_EQ(JsonPatch::parse("x").error().code(), Errc::kBadRequest);
}

TEST(JsonPatch, WhenThereAreTooManyOperations_Is413AM062) {
  std::string body = "[";
  for (int i = 0; i < 10'001; ++i) {
    body += i == 0 ? "{}" : ",{}";
  }
  const Expected<JsonPatch> patch = JsonPatch::parse(body + "]");
  ASSERT_FALSE(patch);
  EXPECT_EQ(http_status(patch.error()), 413);
  EXPECT_EQ(patch.error().message(),
            "Request entity too large: The allowed maximum operations in a JSON patch is 10000, "
            "got 10001");
}

TEST(JsonPatch, WhenCopiesExplode_IsRefusedAM062) {
  std::string body = R"([{"op":"add","path":"/a","value":")" + std::string(1000, 'x') + "\"}";
  for (int i = 0; i < 30; ++i) {
    body += R"(,{"op":"copy","from":"","path":"/b)" + std::to_string(i) + "\"}";
  }
  EXPECT_TRUE(refused("{}", body + "]"));
}

TEST(JsonPatch, WhenFieldsAreUnknownOrDoubled_StrictErrorsNameThemAM151) {
  const Expected<JsonPatch> patch = JsonPatch::parse(
      R"([{"op":"add","path":"/a","path":"/b","value":1},{"op":"test","path":"/c","bar":1}])");
  ASSERT_TRUE(patch);
  EXPECT_EQ(patch->strict_errors(),
            (std::vector<std::string>{"json patch duplicate field \"[0].path\"",
                                      "json patch unknown field \"[1].bar\""}));
}

TEST(MergePatch, WhenApplied_FollowsTheTableOfRfc7386AM202) {
  const char* const cases[][3] = {
      {R"({"a":"b"})", R"({"a":"c"})", R"({"a":"c"})"},
      {R"({"a":"b"})", R"({"b":"c"})", R"({"a":"b","b":"c"})"},
      {R"({"a":"b"})", R"({"a":null})", "{}"},
      {R"({"a":"b","b":"c"})", R"({"a":null})", R"({"b":"c"})"},
      {R"({"a":["b"]})", R"({"a":"c"})", R"({"a":"c"})"},
      {R"({"a":"c"})", R"({"a":["b"]})", R"({"a":["b"]})"},
      {R"({"a":{"b":"c"}})", R"({"a":{"b":"d","c":null}})", R"({"a":{"b":"d"}})"},
      {R"({"a":[{"b":"c"}]})", R"({"a":[1]})", R"({"a":[1]})"},
      {R"({"e":null})", R"({"a":1})", R"({"a":1,"e":null})"},
      {R"([1,2])", R"({"a":"b","c":null})", R"({"a":"b"})"},
      {"{}", R"({"a":{"bb":{"ccc":null}}})", R"({"a":{"bb":{}}})"},
      {R"({"data":{"x":"1","y":"2"}})", R"({"data":{"y":null,"z":"1"}})",
       R"({"data":{"x":"1","z":"1"}})"},
  };
  for (const auto& [target, patch, result] : cases) {
    EXPECT_EQ(apply_merge_patch(*Json::parse(target), *Json::parse(patch)).dump(), result);
  }
}

TEST(MergePatch, WhenBodyIsNoObject_IsDecodeErrorAM202) {
  EXPECT_EQ(parse_merge_patch("null").error().message(), "Invalid JSON Patch");
  for (const char* body : {"[1]", "\"x\"", "", "{"}) {
    const Expected<Json> patch = parse_merge_patch(body);
    ASSERT_FALSE(patch) << body;
    EXPECT_TRUE(patch.error().message().starts_with("error decoding patch: ")) << body;
    EXPECT_EQ(patch.error().code(), Errc::kBadRequest);
  }
  EXPECT_EQ(parse_merge_patch("[1]").error().message(),
            "error decoding patch: json: cannot unmarshal array into Go value of type "
            "map[string]interface {}");
}

nlohmann::json random_document(std::mt19937& random, int depth) {
  const std::size_t kind = random() % (depth > 0 ? 6U : 4U);
  if (kind < 4) {
    return kind == 0   ? nlohmann::json(nullptr)
           : kind == 1 ? nlohmann::json(random() % 5)
           : kind == 2 ? nlohmann::json("s" + std::to_string(random() % 3))
                       : nlohmann::json(random() % 2 == 0);
  }
  nlohmann::json out = kind == 4 ? nlohmann::json::array() : nlohmann::json::object();
  for (std::size_t i = random() % 4; i > 0; --i) {
    if (kind == 4) {
      out.push_back(random_document(random, depth - 1));
    } else {
      out[std::string(1, "abc~/"[random() % 5])] = random_document(random, depth - 1);
    }
  }
  return out;
}

nlohmann::json random_object(std::mt19937& random) {
  nlohmann::json out = nlohmann::json::object();
  for (const char* key : {"a", "b", "c"}) {
    out[key] = random_document(random, 3);
  }
  return out;
}

/// Kubernetes drops null members of objects in lists where the list is new; RFC 7386 keeps them.
void drop_list_nulls(nlohmann::json& value, bool in_list) {
  if (value.is_object() && in_list) {
    for (auto it = value.begin(); it != value.end();) {
      it = it->is_null() ? value.erase(it) : std::next(it);
    }
  }
  for (auto& item : value) {
    if (item.is_structured()) {
      drop_list_nulls(item, in_list || value.is_array());
    }
  }
}

TEST(MergePatch, WhenListIsNew_AM202_DropsNullsInside) {
  EXPECT_EQ(apply_merge_patch(Json(), *Json::parse(R"({"l":[{"a":null,"b":1},null]})")).dump(),
            R"({"l":[{"b":1},null]})");
  EXPECT_EQ(
      apply_merge_patch(*Json::parse(R"({"l":{}})"), *Json::parse(R"({"l":[{"a":null}]})")).dump(),
      R"({"l":[{"a":null}]})");
}

TEST(MergePatchProperty, WhenDocumentsAreRandom_AgreesWithOracle) {
  for (unsigned seed = 0; seed < 3000; ++seed) {
    std::mt19937 random(seed);
    nlohmann::json target = random_object(random);
    nlohmann::json patch = random_object(random);
    drop_list_nulls(patch, false);
    const Json ours = apply_merge_patch(*Json::parse(target.dump()), *Json::parse(patch.dump()));
    target.merge_patch(patch);
    ASSERT_EQ(nlohmann::json::parse(ours.dump()), target) << "seed " << seed;
  }
}

TEST(MergePatchProperty, WhenPatchIsMade_LeadsToTheGoal) {
  for (unsigned seed = 0; seed < 3000; ++seed) {
    std::mt19937 random(seed);
    const Json from = *Json::parse(random_object(random).dump());
    // Applied to {}: a document without nulls that a patch could not express.
    const Json to = apply_merge_patch(Json(), *Json::parse(random_object(random).dump()));
    ASSERT_TRUE(apply_merge_patch(from, make_merge_patch(from, to)) == to) << "seed " << seed;
    ASSERT_EQ(make_merge_patch(from, from).dump(), "{}");
  }
}

/// A path of the document, often a real one.
std::string random_path(std::mt19937& random, const nlohmann::json& document) {
  const nlohmann::json flat = document.flatten();
  auto at = flat.begin();
  std::advance(at, static_cast<std::ptrdiff_t>(random() % flat.size()));
  std::string path = at.key();
  if (random() % 3 == 0) {
    path.resize(path.rfind('/') == std::string::npos ? 0 : path.rfind('/'));
  }
  if (random() % 4 == 0) {
    path += random() % 2 == 0 ? "/-" : "/0";
  }
  return path;
}

/// The oracle adds members below null and asserts on other scalars.
bool passes_scalar(const nlohmann::json& document, const std::string& path) {
  for (std::size_t end = path.find('/', 1); end != std::string::npos;
       end = path.find('/', end + 1)) {
    const nlohmann::json::json_pointer parent(path.substr(0, end));
    if (document.contains(parent) && document.at(parent).is_primitive()) {
      return true;
    }
  }
  return false;
}

TEST(JsonPatchProperty, WhenOperationsAreRandom_AgreesWithOracle) {
  int applied = 0;
  for (unsigned seed = 0; seed < 6000; ++seed) {
    std::mt19937 random(seed);
    const nlohmann::json document = random_object(random);
    static constexpr const char* kOps[] = {"add", "remove", "replace", "move", "copy", "test"};
    nlohmann::json operation = {{"op", kOps[random() % 6]},
                                {"path", random_path(random, document)},
                                {"from", random_path(random, document)},
                                {"value", random_document(random, 2)}};
    const nlohmann::json patch = nlohmann::json::array({operation});
    const std::string op = operation["op"];
    const std::string path = operation["path"];
    const std::string from = operation["from"];
    const bool shifts =
        op == "move" && path.starts_with(from.substr(0, from.rfind('/') + 1)) &&
        std::count(path.begin(), path.end(), '/') > std::count(from.begin(), from.end(), '/');
    if (shifts || passes_scalar(document, path)) {
      continue;
    }
    nlohmann::json expected;
    bool works = true;
    try {
      expected = document.patch(patch);
    } catch (const nlohmann::json::exception&) {
      works = false;
    }
    const Expected<Json> ours =
        JsonPatch::parse(patch.dump())->apply(*Json::parse(document.dump()));
    // The oracle removes nothing, without a word, below a scalar.
    const bool silent = works && op == "remove" && expected == document;
    // Where Kubernetes is more lenient or stricter than RFC 6902, on purpose.
    const bool differs = silent || (!works && (op == "replace" || op == "test")) ||
                         (path.empty() && op == "remove") || (op == "copy" && !works) ||
                         (op == "move" && (from.empty() || path.starts_with(from)));
    if (differs) {
      continue;
    }
    ASSERT_EQ(ours.has_value(), works) << "seed " << seed << " " << document << " " << patch;
    if (works) {
      ++applied;
      ASSERT_EQ(nlohmann::json::parse(ours->dump()), expected) << "seed " << seed;
    }
  }
  EXPECT_GT(applied, 1000);
}

}  // namespace
}  // namespace kintsugi::krm
