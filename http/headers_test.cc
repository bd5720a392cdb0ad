#include "http/headers.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace kintsugi::http {
namespace {

TEST(HeaderList, NamesAreInLowerCaseAtEachLengthAndPlace) {
  std::string all;
  for (int c = 1; c < 256; ++c) {
    all += static_cast<char>(c);
  }
  for (std::size_t length = 0; length <= all.size(); ++length) {
    const std::string sent = all.substr(all.size() - length);
    std::string wanted = sent;
    for (char& c : wanted) {
      c = c >= 'A' && c <= 'Z' ? static_cast<char>(c + 'a' - 'A') : c;
    }
    HeaderList list;
    list.add(sent, sent);
    EXPECT_EQ(list[0].name, wanted) << length;
    EXPECT_EQ(list[0].value, sent) << "values stay";
  }
}

TEST(HeaderList, KeepsOrderAndDuplicatesWhileItGrows) {
  HeaderList list;
  std::vector<std::string> values;
  for (int i = 0; i < 100; ++i) {
    values.push_back(std::to_string(i) + std::string(static_cast<std::size_t>(i) * 7, 'x'));
    list.add("Name-" + std::to_string(i % 3), values.back());
  }
  const HeaderList copy = list;
  ASSERT_EQ(copy.size(), values.size());
  for (std::size_t i = 0; i < values.size(); ++i) {
    EXPECT_EQ(copy[i].name, "name-" + std::to_string(i % 3));
    EXPECT_EQ(copy[i].value, values[i]);
  }
}

TEST(HeaderList, SetReplacesEachOfTheName) {
  HeaderList list;
  list.add("a", "1");
  list.add("bb", "2");
  list.add("A", "3");
  list.set("a", "4");
  ASSERT_EQ(list.size(), 2U);
  EXPECT_EQ(list.get("a"), "4");
  EXPECT_EQ(list.get("bb"), "2");
  list.set("c", "5");
  EXPECT_EQ(list.size(), 3U);
  EXPECT_EQ(list.get("d").data(), nullptr);
}

}  // namespace
}  // namespace kintsugi::http
