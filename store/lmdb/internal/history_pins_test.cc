#include "store/lmdb/internal/history_pins.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "store/testing/test_store.h"

namespace kintsugi::store {
namespace {

/// The folder of a store.
struct Folder : TempDir {
  Folder() { std::filesystem::create_directories(data()); }
};

std::size_t files_in(const std::string& directory) {
  return static_cast<std::size_t>(
      std::distance(std::filesystem::directory_iterator(directory), {}));
}

TEST(HistoryPins, GR_406_TheLowestCountsForAsLongAsItIsHeld) {
  const Folder directory;
  EXPECT_EQ(lowest_pin(directory.data()), std::nullopt);
  auto first = HistoryPin::hold(directory.data(), 70);
  ASSERT_TRUE(first) << first.error().to_string();
  {
    const auto second = HistoryPin::hold(directory.data(), 50);
    ASSERT_TRUE(second);
    EXPECT_EQ(lowest_pin(directory.data()), 50U);
  }
  EXPECT_EQ(lowest_pin(directory.data()), 70U);
  {
    const HistoryPin moved = std::move(*first);
    EXPECT_EQ(lowest_pin(directory.data()), 70U);
  }
  EXPECT_EQ(lowest_pin(directory.data()), std::nullopt);
  EXPECT_EQ(files_in(directory.data()), 0U);
}

TEST(HistoryPins, GR_406_AnHourIsTheLongest) {
  const Folder directory;
  const auto pin = HistoryPin::hold(directory.data(), 70);
  ASSERT_TRUE(pin);
  const auto file = std::filesystem::directory_iterator(directory.data())->path();
  for (const auto& [age, held] : {std::pair{3'590, true}, {3'700, false}}) {
    const timespec times[2] = {{unix_seconds() - age, 0}, {unix_seconds() - age, 0}};
    ASSERT_EQ(::utimensat(AT_FDCWD, file.c_str(), times, 0), 0);
    EXPECT_EQ(lowest_pin(directory.data()).has_value(), held) << age;
  }
}

TEST(HistoryPins, GR_406_OfWhoWasKilledNothingIsLeft) {
  const Folder directory;
  int told[2] = {-1, -1};
  ASSERT_EQ(::pipe(told), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    const auto pin = HistoryPin::hold(directory.data(), 70);
    const char byte = '+';
    (void)!::write(told[1], &byte, 1);
    ::pause();
    ::_exit(pin ? 0 : 1);
  }
  char byte = 0;
  ASSERT_EQ(::read(told[0], &byte, 1), 1);
  EXPECT_EQ(lowest_pin(directory.data()), 70U);
  ASSERT_EQ(::kill(child, SIGKILL), 0);
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(files_in(directory.data()), 1U);
  EXPECT_EQ(lowest_pin(directory.data()), std::nullopt);
  EXPECT_EQ(files_in(directory.data()), 0U);
  ::close(told[0]);
  ::close(told[1]);
}

TEST(HistoryPins, GR_406_OneThatIsBeingWrittenKeepsEverything) {
  const Folder directory;
  const auto pin = HistoryPin::hold(directory.data(), 70);
  ASSERT_TRUE(pin);
  std::ofstream(std::filesystem::directory_iterator(directory.data())->path(), std::ios::trunc);
  EXPECT_EQ(lowest_pin(directory.data()), 0U);
}

TEST(HistoryPins, GR_406_WithoutAFolderThereIsNone) {
  EXPECT_FALSE(HistoryPin::hold("/nonexistent/store", 70));
  EXPECT_EQ(lowest_pin("/nonexistent/store"), std::nullopt);
}

}  // namespace
}  // namespace kintsugi::store
