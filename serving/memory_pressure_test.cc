#include "serving/memory_pressure.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <exception>
#include <filesystem>
#include <fstream>
#include <new>
#include <string>

#include "base/last_resort.h"

namespace kintsugi::serving {
namespace {

TEST(MemoryPressure, SE091_StepsFollowEachOtherAndAreLeftFivePercentLower) {
  MemoryPressure pressure(1'000);
  const auto at = [&](std::size_t used) { return pressure.judge(used, 1'000); };
  EXPECT_EQ(at(699), ShedStep::kNone);
  EXPECT_EQ(at(700), ShedStep::kCaches);
  EXPECT_EQ(at(800), ShedStep::kLists);
  EXPECT_EQ(at(850), ShedStep::kWatches);
  EXPECT_EQ(at(900), ShedStep::kTenants);
  EXPECT_EQ(at(950), ShedStep::kConnections);
  EXPECT_EQ(at(900), ShedStep::kConnections) << "not yet 5 % lower";
  EXPECT_EQ(at(899), ShedStep::kTenants);
  EXPECT_EQ(at(850), ShedStep::kTenants);
  EXPECT_EQ(at(849), ShedStep::kWatches);
  EXPECT_EQ(at(100), ShedStep::kNone) << "and straight down";
  EXPECT_EQ(at(2'000), ShedStep::kTenants) << "and straight up, but watches end first";
  EXPECT_EQ(at(2'000), ShedStep::kConnections);
  EXPECT_EQ(pressure.judge(2'000, 0), ShedStep::kNone) << "no budget is known";
}

TEST(MemoryPressure, SE090_TheLimitOfTheControlGroupIsReadAgain) {
  std::string root = testing::TempDir() + "kintsugi-pressure-XXXXXX";
  ASSERT_NE(mkdtemp(root.data()), nullptr);
  const auto write = [&](const std::string& path, const std::string& text) {
    const std::filesystem::path file = root + path;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << text;
  };
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGE_SIZE));
  write("/proc/self/cgroup", "0::/\n");
  write("/sys/fs/cgroup/memory.max", std::to_string(400 * page));
  write("/proc/self/statm", "900 250 50 1 0 1 0\n");
  MemoryPressure pressure(0, root);
  const TimePoint start = TimePoint() + seconds(1'000);
  EXPECT_EQ(pressure.look(start), ShedStep::kNone);
  EXPECT_EQ(pressure.used(), 200 * page) << "pages of files are not the process's own";
  EXPECT_EQ(pressure.budget(), 300 * page);
  write("/sys/fs/cgroup/memory.max", std::to_string(320 * page));
  EXPECT_EQ(pressure.look(start + seconds(9)), ShedStep::kNone);
  EXPECT_EQ(pressure.look(start + seconds(10)), ShedStep::kLists);
  EXPECT_EQ(pressure.budget(), 240 * page);
  MemoryPressure said(100 * page, root);
  EXPECT_EQ(said.look(start), ShedStep::kTenants) << "what somebody says wins";
  EXPECT_EQ(said.look(start), ShedStep::kConnections);
  std::filesystem::remove_all(root);
}

TEST(MemoryPressure, SE183_WhenAnAllocationFindsNoMemory_AsMuchIsShedAsAt90Percent) {
  const std::terminate_handler before = std::get_terminate();
  prepare_for_no_memory(4'096);
  MemoryPressure pressure(std::size_t{1} << 50);
  const TimePoint start = TimePoint() + seconds(1'000);
  EXPECT_EQ(pressure.look(start), ShedStep::kNone);
  std::get_new_handler()();  // as operator new does
  EXPECT_EQ(pressure.look(start + milliseconds(100)), ShedStep::kTenants);
  EXPECT_EQ(pressure.step(), ShedStep::kTenants);
  EXPECT_EQ(pressure.shed(ShedStep::kCaches), 1U);
  EXPECT_EQ(pressure.look(start + seconds(10)), ShedStep::kTenants);
  EXPECT_EQ(pressure.look(start + seconds(11)), ShedStep::kNone);
  EXPECT_EQ(pressure.look(start + seconds(12)), ShedStep::kNone) << "once";
  std::set_new_handler(nullptr);
  std::set_terminate(before);
}

}  // namespace
}  // namespace kintsugi::serving
