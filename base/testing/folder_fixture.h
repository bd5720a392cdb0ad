#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace kintsugi {

/// A test with a folder of its own that stands for `/` and goes with it.
class FolderFixture : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = testing::TempDir() + "kintsugi-folder-XXXXXX";
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    root_ = name;
  }
  void TearDown() override { std::filesystem::remove_all(root_); }
  /// @param path  below the folder, with a slash first; folders on the way are made
  void write(const std::string& path, const std::string& text) {
    const std::filesystem::path file = root_ + path;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << text;
  }
  std::string root_;
};

}  // namespace kintsugi
