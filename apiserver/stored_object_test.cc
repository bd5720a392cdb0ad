#include "apiserver/stored_object.h"

#include <gtest/gtest.h>

#include <string>

namespace kintsugi::apiserver {
namespace {

krm::Json parse(std::string_view text) {
  Expected<krm::Json> json = krm::Json::parse(text);
  EXPECT_TRUE(json) << text;
  return json ? std::move(*json) : krm::Json();
}

constexpr std::string_view kObject =
    R"({"apiVersion":"v1","kind":"ConfigMap","data":{"a":"}\\\"{","z":"resourceVersion\":\""},
        "metadata":{"labels":{"k":"v","q":"\"}"},"name":"a","namespace":"t1",
        "resourceVersion":"7","uid":"u"}})";

TEST(StoredObject, WhenSpliced_EqualsTheObjectWithItsRevision) {
  const std::string value = encode_stored(parse(kObject));
  const Expected<StoredView> stored = StoredView::parse(value);
  ASSERT_TRUE(stored);
  std::string out;
  append_object(out, *stored, kind_prefix("v1", "ConfigMap"), 18446744073709551615U);
  krm::Json expected = parse(kObject);
  expected["metadata"]["resourceVersion"] = "18446744073709551615";
  EXPECT_EQ(parse(out), expected);
}

TEST(StoredObject, WhenDecoded_HasKindAndRevisionOrNone) {
  const std::string value = encode_stored(parse(kObject));
  const Expected<krm::Json> object = decode_stored(value, "v1", "ConfigMap", 7);
  ASSERT_TRUE(object);
  EXPECT_EQ(*object, parse(kObject));
  const Expected<krm::Json> bare = decode_stored(value, "", "", 0);
  ASSERT_TRUE(bare);
  EXPECT_EQ(bare->at({"metadata", "resourceVersion"}), nullptr);
  EXPECT_EQ(bare->find("kind"), nullptr);
}

TEST(StoredObject, WhenMembersAreScanned_FindsTheirText) {
  const std::string value = encode_stored(parse(kObject));
  const StoredView stored = *StoredView::parse(value);
  EXPECT_EQ(metadata_member(stored, "labels"), R"({"k":"v","q":"\"}"})");
  EXPECT_EQ(metadata_member(stored, "name"), R"("a")");
  EXPECT_EQ(metadata_member(stored, "annotations"), "");
}

TEST(StoredObject, WhenMetadataIsTaken_IsWholeWithoutTheRest) {
  const std::string value = encode_stored(parse(kObject));
  const MetadataView view = metadata_of(*StoredView::parse(value));
  const std::string text = std::string(view.before) + "9" + std::string(view.after);
  krm::Json expected = *parse(kObject).find("metadata");
  expected["resourceVersion"] = "9";
  EXPECT_EQ(parse(text), expected);
}

TEST(StoredObject, WhenThereIsNoMetadata_StillHasAPlaceForTheRevision) {
  const std::string value = encode_stored(krm::Json::object());
  const Expected<StoredView> stored = StoredView::parse(value);
  ASSERT_TRUE(stored);
  std::string out;
  append_object(out, *stored, "", 3);
  EXPECT_EQ(out, R"({"metadata":{"resourceVersion":"3"}})");
}

TEST(StoredObject, WhenBytesAreDamaged_IsCorrupt) {
  std::string value = encode_stored(parse(kObject));
  for (const std::string& bad :
       {std::string(), std::string("abc"), value.substr(0, 10),
        "\xff\xff\xff\xff" + value.substr(4), std::string(4, '\0') + value.substr(4)}) {
    const Expected<StoredView> stored = StoredView::parse(bad);
    ASSERT_FALSE(stored) << bad.size();
    EXPECT_EQ(stored.error().code(), Errc::kCorrupt);
  }
}

}  // namespace
}  // namespace kintsugi::apiserver
