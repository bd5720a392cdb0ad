#include "workers/messaging/model/migration.h"

#include <gtest/gtest.h>

#include "workers/messaging/model/objects.h"

namespace kintsugi::workers {
namespace {

using krm::Json;

Json space_of(std::string_view annotations, std::string_view type = "standard") {
  Json out = *Json::parse(
      R"({"apiVersion":"enmasse.io/v1beta1","kind":"AddressSpace",
          "metadata":{"name":"old","namespace":"n","uid":"u","resourceVersion":"5","generation":2,
                      "labels":{"team":"a","claimed.internal.apis.kcp.io/x":"y"},
                      "finalizers":["theirs"]},
          "spec":{"plan":"standard-small","endpoints":[{"name":"m","service":"messaging"}]},
          "status":{"isReady":true}})");
  out.make({"metadata"})["annotations"] = *Json::parse(annotations);
  out.make({"spec"})["type"] = type;
  return out;
}

TEST(Migration, MR_36_MS_093_ASpaceIsTranslatedOnlyWhenItAsksForIt) {
  EXPECT_FALSE(migration_of(space_of("{}")));
  EXPECT_FALSE(migration_of(space_of(R"({"enmasse.io/migrate-to":"standard"})")));
  EXPECT_FALSE(migration_of(space_of(R"({"enmasse.io/migrate-to":"shared"})", "shared")));
  EXPECT_EQ(*migration_of(space_of(R"({"enmasse.io/migrate-to":"shared"})")),
            (MigrationWish{"old-shared", "standard-small"}));
  EXPECT_EQ(*migration_of(space_of(
                R"({"enmasse.io/migrate-to":"shared","enmasse.io/migrate-name":"new",
                    "enmasse.io/migrate-plan":"small"})",
                "brokered")),
            (MigrationWish{"new", "small"}));
}

TEST(Migration, MS_093_TheCopyHasTheSpecAndNothingOfTheServers) {
  const Json from = space_of(R"({"enmasse.io/migrate-to":"shared","note":"x",
      "kcp.io/cluster":"c","kubectl.kubernetes.io/last-applied-configuration":"{}"})");
  const Json copy = migrated_space(from, {"new", "small"});
  EXPECT_EQ(copy.dump(),
            R"({"apiVersion":"enmasse.io/v1beta1","kind":"AddressSpace","metadata":)"
            R"({"annotations":{"enmasse.io/migrated-from":"old","note":"x"},"labels":{"team":"a"},)"
            R"("name":"new","namespace":"n"},"spec":{"endpoints":)"
            R"([{"name":"m","service":"messaging"}],"plan":"small","type":"shared"}})");
  EXPECT_EQ(migrated_from(copy), "old");
  EXPECT_EQ(migrated_from(from), "");
  const Parsed<MessagingSpace> parsed = parse_space(copy);
  EXPECT_TRUE(parsed.valid);
  EXPECT_TRUE(parsed.object.shared);
  ASSERT_EQ(parsed.conditions.size(), 1U);
  EXPECT_EQ(parsed.conditions[0].type, "Migrated");
  EXPECT_EQ(parsed.conditions[0].status, ConditionStatus::kTrue);
  EXPECT_TRUE(parse_space(from).object.migrates);
  EXPECT_FALSE(parse_space(space_of("{}")).object.migrates);
}

TEST(Migration, MS_093_AddressesFollowTheirSpace) {
  const MigrationWish wish{"new", "small"};
  const Json from = *Json::parse(
      R"({"apiVersion":"enmasse.io/v1beta1","kind":"Address",
          "metadata":{"name":"old.q","namespace":"n","uid":"v"},
          "spec":{"address":"q","addressSpace":"old","plan":"p","type":"deadletter"}})");
  const std::optional<Json> copy = migrated_address(from, "old", wish);
  ASSERT_TRUE(copy);
  EXPECT_EQ(copy->dump(),
            R"({"apiVersion":"enmasse.io/v1beta1","kind":"Address","metadata":{"annotations":)"
            R"({"enmasse.io/migrated-from":"old.q"},"name":"new.q","namespace":"n"},)"
            R"("spec":{"address":"q","plan":"p","type":"deadLetter"}})");
  EXPECT_EQ(migrated_address_name("old.", "old", wish), "");
  EXPECT_EQ(migrated_address_name("older.q", "old", wish), "");
  EXPECT_EQ(migrated_address_name("old.a.b", "old", wish), "new.a.b");
}

}  // namespace
}  // namespace kintsugi::workers
