#include "krm/config_table.h"

#include <gtest/gtest.h>

#include <vector>

#include "krm/config_values.h"

namespace kintsugi::krm {
namespace {

struct Part {
  std::string name, label;
};
struct Settings {
  std::string name = "usual";
  std::int32_t count = 3;
  bool on = false;
  Duration wait = seconds(15);
  double share = 0.5;
  std::vector<std::string> words;
  std::vector<std::pair<std::string, std::string>> labels;
  std::vector<Part> parts, named;
};

ConfigTable part_keys(Part& part, bool named) {
  if (named) {
    return {{"label", text(part.label)}};
  }
  return {{"name", text(part.name)}, {"inner.label", text(part.label)}};
}

ConfigSections parts_of(std::vector<Part>& parts, bool named) {
  return {named,
          [&parts, named](const std::string& name) -> std::optional<ConfigTable> {
            if (name == "never") {
              return std::nullopt;
            }
            parts.push_back({named ? name : "", ""});
            return part_keys(parts.back(), named);
          },
          [&parts, named] {
            std::vector<std::pair<std::string, ConfigTable>> all;
            for (std::size_t i = 0; i < parts.size(); ++i) {
              all.emplace_back(named ? parts[i].name : std::to_string(i),
                               part_keys(parts[i], named));
            }
            return all;
          }};
}

ConfigTable table_of(Settings& settings) {
  return {
      {"name", some_text(settings.name)},
      {"section.count", number(settings.count, 1, 9)},
      {"section.deep.on", boolean(settings.on)},
      {"section.deep.wait", duration(settings.wait, milliseconds(1))},
      {"section.groups.apps.example.test", fraction(settings.share, 0, 1), {}, 2},
      {"words", text_list(settings.words)},
      {"labels", text_map(settings.labels)},
      {"parts", {}, parts_of(settings.parts, false)},
      {"named", {}, parts_of(settings.named, true)},
  };
}

const std::string kHead = "apiVersion: kintsugi.dev/v1alpha1\nkind: Settings\n";

std::string faults(const std::string& text) {
  Settings settings;
  auto reader = ConfigReader::open(kHead + text, "s.yaml", "Settings");
  if (!reader) {
    return std::string(reader.error().message());
  }
  reader->read(table_of(settings));
  return reader->is_right() ? "none" : std::string(reader->error().message());
}

std::string shown(Settings& settings) {
  return config_yaml("Settings", shown_keys(table_of(settings)));
}

TEST(ConfigTable, OP105_EachFaultHasItsLineAndNoneHidesAnother) {
  EXPECT_EQ(faults("nmae: x\nsection:\n  count: 10\n  deep: 3\nwords: {}\n"
                   "parts: [{inner: {lable: x}}, 7]\nnamed: {never: {}, a: {x: 1}}\n"),
            "s.yaml:3: nmae: unknown key \"nmae\"; did you mean \"name\"?\n"
            "s.yaml:5: section.count: must be a number from 1 to 9\n"
            "s.yaml:6: section.deep: must be a section with keys\n"
            "s.yaml:7: words: must be a list of texts\n"
            "s.yaml:8: parts[0].inner.lable: unknown key \"lable\"; did you mean \"label\"?\n"
            "s.yaml:8: parts: element 1 must be a section with keys\n"
            "s.yaml:9: named.a.x: unknown key \"x\"\n"
            "s.yaml:9: named.never: unknown key \"never\"");
  EXPECT_EQ(faults("name: ''\nsection: {deep: {wait: 2h}}\nparts: 1\nnamed: [1]\nlabels: {a: 1}\n"),
            "s.yaml:3: name: must be text\n"
            "s.yaml:4: section.deep.wait: must be a duration such as 500ms, 15s or 1m, from 1ms to "
            "1h\n"
            "s.yaml:5: parts: must be a list\n"
            "s.yaml:6: named: must be sections by name\n"
            "s.yaml:7: labels: must be texts by name");
}

TEST(ConfigTable, OP105_AFaultOfAKeyThatIsMissingIsAtItsSection) {
  auto reader = ConfigReader::open(kHead + "section:\n  deep: {on: true}\n", "s.yaml", "Settings");
  ASSERT_TRUE(reader);
  reader->fault("section.deep.wait", "is required");
  reader->fault("section.count", "is required");
  reader->fault("section.count", "is told once");
  reader->fault("name", "is required");
  EXPECT_EQ(reader->error().message(),
            "s.yaml:1: name: is required\ns.yaml:3: section.count: is required\n"
            "s.yaml:4: section.deep.wait: is required");
}

TEST(ConfigTable, OP105_WhatIsNoSuchDocumentIsOneLine) {
  for (const auto& [text, fault] : std::vector<std::pair<std::string, std::string>>{
           {"kind: Other\napiVersion: kintsugi.dev/v1alpha1\n", "s.yaml:1: kind: must be Settings"},
           {"kind: Settings\napiVersion: v1\n",
            "s.yaml:2: apiVersion: must be kintsugi.dev/v1alpha1"},
           {"", "s.yaml:1: kind: must be Settings"},
           {"- a\n", "s.yaml:1: kind: must be Settings"}}) {
    const auto reader = ConfigReader::open(text, "s.yaml", "Settings");
    ASSERT_FALSE(reader) << text;
    EXPECT_EQ(reader.error().message(), fault);
  }
}

TEST(ConfigTable, OP106_WhatIsShownReadsBackToTheSame) {
  Settings settings;
  EXPECT_EQ(shown(settings), kHead +
                                 "labels: {}\nname: usual\nnamed: {}\nparts: []\nsection:\n"
                                 "  count: 3\n  deep:\n    \"on\": false\n    wait: 15s\n"
                                 "  groups:\n    apps.example.test: 0.5\nwords: []\n");
  settings = {.name = "yes",
              .count = 9,
              .on = true,
              .wait = milliseconds(1500),
              .share = 1,
              .words = {"a: b", "- c", "#"},
              .labels = {{"x", "1"}, {"y", "null"}},
              .parts = {{"one", "a"}, {"two", ""}},
              .named = {{"n:1", "x"}, {"n:2", "'"}}};
  for (int i = 0; i < 12; ++i) {
    settings.parts.push_back({"more" + std::to_string(i), ""});
  }
  const std::string text = shown(settings);
  Settings again;
  auto reader = ConfigReader::open(text, "s.yaml", "Settings");
  ASSERT_TRUE(reader) << reader.error().message() << "\n" << text;
  reader->read(table_of(again));
  ASSERT_TRUE(reader->is_right()) << reader->error().message() << "\n" << text;
  EXPECT_EQ(shown(again), text);
  EXPECT_EQ(again.name, "yes");
  EXPECT_EQ(again.words, settings.words);
  EXPECT_EQ(again.labels, settings.labels);
  ASSERT_EQ(again.parts.size(), 14U);
  EXPECT_EQ(again.parts[0].label, "a");
  EXPECT_EQ(again.parts[13].name, "more11") << "a list keeps its order";
  EXPECT_EQ(again.named[1].label, "'");
}

TEST(ConfigTable, OP106_EachValueHasItsSource) {
  Settings settings;
  auto reader = ConfigReader::open(kHead + "section:\n  count: 4\nparts:\n- name: x\n", "d/s.yaml",
                                   "Settings");
  ASSERT_TRUE(reader);
  const ConfigTable table = table_of(settings);
  reader->read(table);
  ConfigOrigin origin{reader->lines(), {}, {}};
  const auto before = ConfigOrigin::values_of(table);
  settings.words = {"w"};
  origin.amended_since(before, table);
  EXPECT_EQ(config_yaml("Settings", shown_keys(table, origin), "s.yaml"),
            kHead +
                "labels: {}  # default\nname: usual  # default\nnamed: {}  # default\nparts:\n"
                "  - inner:\n      label: \"\"  # default\n    name: x  # s.yaml:6\n"
                "section:\n  count: 4  # s.yaml:4\n  deep:\n    \"on\": false  # default\n"
                "    wait: 15s  # default\n  groups:\n    apps.example.test: 0.5  # default\n"
                "words: [\"w\"]  # command line\n");
}

}  // namespace
}  // namespace kintsugi::krm
