#include "krm/config_environment.h"

#include <gtest/gtest.h>

#include "krm/config_schema.h"
#include "krm/config_values.h"

namespace kintsugi::krm {
namespace {

struct Settings {
  std::string name = "usual", mode = "soft";
  std::int32_t count = 3;
  double share = 0.5;
  bool on = false;
  std::vector<std::string> words = {"old"};
  std::vector<std::pair<std::string, std::string>> labels;
  std::string part;
};

ConfigTable table_of(Settings& settings) {
  const auto keys = [&settings](const std::string&) {
    return std::optional(ConfigTable{{"deep.label", text(settings.part)}});
  };
  return {
      {"name", text(settings.name)},
      {"section.count", number(settings.count, 1, 9)},
      {"section.share", fraction(settings.share, 0, 1)},
      {"section.groups.apps.example.test",
       one_of<std::string>(settings.mode, {{"soft", "soft"}, {"hard", "hard"}}),
       {},
       2},
      {"on", boolean(settings.on)},
      {"words", text_list(settings.words)},
      {"labels", text_map(settings.labels)},
      {"named",
       {},
       {true, keys,
        [keys] {
          return std::vector<std::pair<std::string, ConfigTable>>{{"a-b", *keys("a-b")}};
        }}},
      {"parts",
       {},
       {false, keys, [] { return std::vector<std::pair<std::string, ConfigTable>>(); }}},
  };
}

std::string faults(const ConfigEnvironment& environment) {
  Settings settings;
  const auto done = apply_environment(environment, table_of(settings));
  return done ? "none" : std::string(done.error().message());
}

TEST(ConfigEnvironment, OP107_KeysAreSetByTheirVariables) {
  Settings settings;
  const auto done = apply_environment({{"KINTSUGI_CFG_NAME", "true"},
                                       {"KINTSUGI_CFG_SECTION_COUNT", "9"},
                                       {"KINTSUGI_CFG_SECTION_SHARE", "0.25"},
                                       {"KINTSUGI_CFG_SECTION_GROUPS_APPS_EXAMPLE_TEST", "hard"},
                                       {"KINTSUGI_CFG_ON", "true"},
                                       {"KINTSUGI_CFG_WORDS", "a, b,"},
                                       {"KINTSUGI_CFG_LABELS", "{x: here}"},
                                       {"KINTSUGI_CFG_NAMED_A_B_DEEP_LABEL", "here"}},
                                      table_of(settings));
  ASSERT_TRUE(done) << done.error().to_string();
  EXPECT_EQ(done->size(), 8U);
  EXPECT_TRUE(done->contains("named.a-b.deep.label"));
  EXPECT_EQ(settings.name, "true");
  EXPECT_EQ(settings.count, 9);
  EXPECT_EQ(settings.share, 0.25);
  EXPECT_EQ(settings.mode, "hard");
  EXPECT_TRUE(settings.on);
  EXPECT_EQ(settings.words, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(settings.labels.size(), 1U);
  EXPECT_EQ(settings.part, "here");
}

TEST(ConfigEnvironment, OP107_AnEmptyVariableIsAnEmptyValue) {
  Settings settings;
  ASSERT_TRUE(apply_environment({{"KINTSUGI_CFG_NAME", ""}, {"KINTSUGI_CFG_WORDS", ""}},
                                table_of(settings)));
  EXPECT_EQ(settings.name, "");
  EXPECT_TRUE(settings.words.empty());
}

TEST(ConfigEnvironment, OP104_OP107_EachFaultNamesItsVariable) {
  EXPECT_EQ(faults({{"KINTSUGI_CFG_NAEM", "x"},
                    {"KINTSUGI_CFG_ON", "perhaps"},
                    {"KINTSUGI_CFG_PARTS", "[]"},
                    {"KINTSUGI_CFG_SECTION_COUNT", "tcp://10.0.0.1:80"},
                    {"KINTSUGI_CFG_SECTION_GROUPS_APPS_EXAMPLE_TEST", "hrad"}}),
            "KINTSUGI_CFG_NAEM: no key has this variable; did you mean KINTSUGI_CFG_NAME?\n"
            "KINTSUGI_CFG_ON: must be true or false\n"
            "KINTSUGI_CFG_PARTS: no key has this variable\n"
            "KINTSUGI_CFG_SECTION_COUNT: must be a number from 1 to 9\n"
            "KINTSUGI_CFG_SECTION_GROUPS_APPS_EXAMPLE_TEST: must be one of soft, hard");
}

TEST(ConfigEnvironment, OP106_TheSourceIsTheVariable) {
  Settings settings;
  ConfigOrigin origin;
  origin.lines = {{"name", 3}, {"on", 4}};
  origin.environment = {"name", "section.count"};
  origin.amended = {"section.count"};
  const std::string text =
      config_yaml("Settings", shown_keys(table_of(settings), origin), "s.yaml");
  EXPECT_NE(text.find("name: usual  # env KINTSUGI_CFG_NAME\n"), std::string::npos) << text;
  EXPECT_NE(text.find("count: 3  # command line\n"), std::string::npos) << text;
  EXPECT_NE(text.find("\"on\": false  # s.yaml:4\n"), std::string::npos) << text;
}

TEST(ConfigSchema, OP108_TellsKeysValuesAndDefaults) {
  Settings settings;
  const ConfigDescription told = describe_config("Settings", table_of(settings));
  const Json* properties = told.schema.find("properties");
  ASSERT_NE(properties, nullptr);
  EXPECT_EQ(told.schema.find("additionalProperties")->dump(), "false");
  EXPECT_EQ(properties->find("kind")->dump(), R"({"const":"Settings"})");
  EXPECT_EQ(properties->find("words")->dump(),
            R"({"default":["old"],"items":{"minLength":1,"type":"string"},"type":"array"})");
  const Json* section = properties->find("section")->find("properties");
  EXPECT_EQ(section->find("count")->dump(),
            R"({"default":3,"maximum":9,"minimum":1,"type":"integer"})");
  EXPECT_EQ(section->find("groups")->find("properties")->find("apps.example.test")->dump(),
            R"({"default":"soft","enum":["soft","hard"]})");
  EXPECT_NE(properties->find("named")->find("properties")->find("a-b"), nullptr)
      << "those that are there are all that there may be";
  EXPECT_NE(properties->find("parts")->find("items")->find("properties")->find("deep"), nullptr);
  EXPECT_EQ(told.variables.size(), 8U);
}

}  // namespace
}  // namespace kintsugi::krm
