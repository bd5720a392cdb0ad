#include "bench/scale_model.h"

#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <string>
#include <utility>

namespace kintsugi::bench {
namespace {

/// The rows `| name | value | unit |` of the document, but those whose unit is of the machine.
std::map<std::string, std::pair<double, std::string>> documented() {
  std::map<std::string, std::pair<double, std::string>> rows;
  std::ifstream in(std::string(KINTSUGI_SOURCES) + "docs/scaling.md");
  for (std::string line; std::getline(in, line);) {
    const std::size_t first = line.find(" | "), second = line.find(" | ", first + 3);
    const std::size_t end = line.rfind(" |");
    if (!line.starts_with("| ") || second == std::string::npos || end <= second) {
      continue;
    }
    const std::string unit = line.substr(second + 3, end - second - 3);
    if (unit == "B" || unit == "digits" || unit == "of 1" || unit == "watches") {
      rows[line.substr(2, first - 2)] = {std::stod(line.substr(first + 3)), unit};
    }
  }
  return rows;
}

TEST(ScaleModel, WhenItRunsSmaller_GR801_UnitsAreThoseOfTheDocument) {
  ScaleSize size;
  size.clusters = 60'000;
  Figures figures = index_figures(size);
  for (const Figures& more : {position_figures(size), storm_figures(size, {})}) {
    figures.insert(figures.end(), more.begin(), more.end());
  }
  const auto rows = documented();
  std::size_t compared = 0;
  for (const Figure& figure : figures) {
    const auto row = rows.find(figure.name);
    if (row == rows.end()) {
      EXPECT_TRUE(figure.unit == "us" || figure.unit == "s counted")
          << figure.name << " is not in docs/scaling.md";
      continue;
    }
    ++compared;
    EXPECT_EQ(row->second.second, figure.unit) << figure.name;
    EXPECT_NEAR(figure.value, row->second.first, row->second.first / 4) << figure.name;
  }
  EXPECT_EQ(compared, rows.size()) << "docs/scaling.md names what is not measured";
}

TEST(ScaleModel, WhenTheSeedIsTheSame_GR802_SoIsTheStorm) {
  ScaleSize size;
  size.shards = 3;
  size.watches = 3'000;
  const Figures one = storm_figures(size, {}), other = storm_figures(size, {});
  for (std::size_t i = 0; i < one.size(); ++i) {
    EXPECT_EQ(one[i].value, other[i].value) << one[i].name;
  }
}

}  // namespace
}  // namespace kintsugi::bench
