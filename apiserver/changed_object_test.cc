#include "apiserver/changed_object.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "apiserver/stored_object.h"

namespace kintsugi::apiserver {
namespace {

krm::Json parse(std::string_view text) {
  Expected<krm::Json> json = krm::Json::parse(text);
  EXPECT_TRUE(json) << text;
  return json ? std::move(*json) : krm::Json();
}

ChangedObject stored(std::string_view text, const StoredStamp& stamp = {}) {
  auto def = std::make_shared<ResourceDef>();
  def->kind = "Thing";
  def->versions.emplace_back().name = "v1";
  return {std::move(def), SharedBytes(encode_stored(parse(text), stamp)), 7};
}

constexpr std::string_view kObject =
    R"({"metadata":{"finalizers":["f"],"managedFields":[{"manager":"m","fieldsV1":{"f:a":{}}}],
        "name":"a","uid":"u"},"spec":{"x":1}})";

TEST(ChangedObject, WhenLookedAt_IsTheObjectOfItsRevision) {
  const ChangedObject object = stored(kObject);
  ASSERT_TRUE(object);
  EXPECT_EQ(object->text({"kind"}), "Thing");
  EXPECT_EQ(object->text({"apiVersion"}), "v1");
  EXPECT_EQ(object->text({"metadata", "resourceVersion"}), "7");
  EXPECT_NE(object->at({"metadata", "managedFields"}), nullptr);
  const ChangedObject copy = object;
  EXPECT_EQ(copy.get(), object.get()) << "copies share what was read";
}

TEST(ChangedObject, WhenMetadataIsEnough_HasItWithoutManagedFields) {
  const krm::Json expected =
      parse(R"({"metadata":{"finalizers":["f"],"name":"a","resourceVersion":"7","uid":"u"}})");
  EXPECT_EQ(stored(kObject).meta(), expected);
  EXPECT_EQ(stored(kObject, {"v1", 5}).meta(), expected);
  EXPECT_EQ(stored(R"({"metadata":{"managedFields":[]},"spec":{}})").meta(),
            parse(R"({"metadata":{"resourceVersion":"7"}})"));
  EXPECT_EQ(stored(R"({"metadata":{"name":"a"}})").meta(),
            parse(R"({"metadata":{"name":"a","resourceVersion":"7"}})"));
}

TEST(ChangedObject, WhenThereIsNone_IsNull) {
  EXPECT_TRUE(ChangedObject() == nullptr);
  EXPECT_TRUE(ChangedObject(nullptr, SharedBytes(), 1) == nullptr);
  EXPECT_EQ(ChangedObject(std::shared_ptr<const krm::Json>()).get(), nullptr);
}

}  // namespace
}  // namespace kintsugi::apiserver
