#include "base/data_folder.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>

namespace kintsugi {
namespace {

TEST(DataFolder, GR_417_MetricsTellOfRoomAndOfTheLastBackup) {
  std::string folder = (std::filesystem::temp_directory_path() / "data-folder-XXXXXX").string();
  ASSERT_NE(::mkdtemp(folder.data()), nullptr);
  EXPECT_FALSE(data_folder_facts());
  set_data_folder(folder);
  auto facts = data_folder_facts();
  ASSERT_TRUE(facts);
  EXPECT_GT(facts->disk, 0U);
  EXPECT_LE(facts->room, facts->disk);
  EXPECT_FALSE(facts->backed_up);
  std::ofstream(folder + kBackedUpFile) << "1764273600\n";
  EXPECT_EQ(data_folder_facts()->backed_up, 1'764'273'600);
  std::ofstream(folder + kBackedUpFile) << "yesterday\n";
  EXPECT_FALSE(data_folder_facts()->backed_up);
  std::filesystem::remove_all(folder);
  EXPECT_FALSE(data_folder_facts()) << "it is gone";
  set_data_folder("");
}

}  // namespace
}  // namespace kintsugi
