#include "base/secret_file.h"

#include <gmock/gmock.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <system_error>
#include <vector>

namespace kintsugi {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class SecretFile : public ::testing::Test {
 protected:
  SecretFile() {
    std::string pattern = (fs::temp_directory_path() / "secret-file-XXXXXX").string();
    folder_ = ::mkdtemp(pattern.data()) == nullptr ? "" : pattern;
  }
  ~SecretFile() override {
    set_secret_file_rule(SecretFileRule::kRefuse);
    std::error_code ignored;
    fs::remove_all(folder_, ignored);
  }
  [[nodiscard]] std::string at(const std::string& name) const { return folder_ + "/" + name; }
  void make(const std::string& name, const std::string& text, mode_t mode) const {
    std::ofstream(at(name)) << text;
    ASSERT_EQ(::chmod(at(name).c_str(), mode), 0);
  }
  [[nodiscard]] std::string text_of(const std::string& name) const {
    std::ifstream in(at(name));
    return {std::istreambuf_iterator<char>(in), {}};
  }
  /// The content, or "! <what is wrong>" without the folder.
  [[nodiscard]] std::string read(const std::string& name) const {
    const auto text = read_secret_file(at(name));
    if (text) {
      return std::string(text->view());
    }
    EXPECT_EQ(text.error().code(), Errc::kConfig);
    EXPECT_TRUE(text.error().message().starts_with(at(name) + ": "));
    return "! " + std::string(text.error().message().substr(at(name).size() + 2));
  }
  [[nodiscard]] std::vector<std::string> names() const {
    std::vector<std::string> out;
    for (const auto& entry : fs::directory_iterator(folder_)) {
      out.push_back(entry.path().filename());
    }
    std::sort(out.begin(), out.end());
    return out;
  }

  std::string folder_;
};

TEST_F(SecretFile, SE_143_WhenClosedToOthers_IsRead) {
  make("a", "text", 0600);
  make("b", "", 0400);
  EXPECT_EQ(read("a"), "text");
  EXPECT_EQ(read("b"), "");
  const std::string large(100'000, 'x');
  make("c", large, 0600);
  EXPECT_EQ(read("c"), large);
}

TEST_F(SecretFile, SE_T060_WhenOthersMayDoAnything_IsRefused) {
  for (const mode_t mode : {0640U, 0620U, 0610U, 0604U, 0602U, 0601U, 0644U, 0666U, 0777U}) {
    make("a", "canary", mode);
    const std::string said = read("a");
    EXPECT_THAT(said, HasSubstr("holds a secret and has mode 0")) << mode;
    EXPECT_THAT(said, ::testing::Not(HasSubstr("canary")));
  }
  fs::create_symlink("a", at("link"));
  EXPECT_THAT(read("link"), HasSubstr("has mode 0777"));
  ASSERT_EQ(::chmod(at("a").c_str(), 0600), 0);
  EXPECT_EQ(read("link"), "canary");  // as mounted Secrets have them
}

TEST_F(SecretFile, SE_T060_WhenItIsNoFile_IsRefusedAtOnce) {
  ASSERT_EQ(::mkfifo(at("fifo").c_str(), 0600), 0);
  EXPECT_EQ(read("fifo"), "! is not a regular file");
  ASSERT_EQ(::mkdir(at("folder").c_str(), 0700), 0);
  EXPECT_EQ(read("folder"), "! is not a regular file");
  EXPECT_EQ(read("absent"), "! No such file or directory");
  fs::create_symlink("link", at("link"));
  EXPECT_EQ(read("link"), "! Too many levels of symbolic links");
}

TEST_F(SecretFile, SE_143_WhenTooLarge_IsRefused) {
  make("a", "x", 0600);
  ASSERT_EQ(::truncate(at("a").c_str(), static_cast<off_t>(kMaxSecretFile)), 0);
  EXPECT_EQ(read("a").size(), kMaxSecretFile);
  ASSERT_EQ(::truncate(at("a").c_str(), static_cast<off_t>(kMaxSecretFile) + 1), 0);
  EXPECT_EQ(read("a"), "! is larger than 8 MiB");
}

TEST_F(SecretFile, SE_T060_WhenItBelongsToAnother_IsRefused) {
  if (::geteuid() != 0) {
    GTEST_SKIP() << "only root can give files away";
  }
  make("theirs", "text", 0600);
  make("roots", "text", 0640);
  ASSERT_EQ(::chown(at("theirs").c_str(), 4'321, 4'321), 0);
  ASSERT_EQ(::chown(at("roots").c_str(), 0, 4'321), 0);
  EXPECT_EQ(read("theirs"), "! belongs to user 4321, not to the one of this process or root");
  EXPECT_THAT(read("roots"), HasSubstr("has mode 0640"));  // root needs no group to read its file
  ASSERT_EQ(::chmod(folder_.c_str(), 0755), 0);
  const pid_t child = ::fork();
  if (child == 0) {  // as somebody else, in the group
    const bool became = ::setgid(4'321) == 0 && ::setuid(4'321) == 0;
    const bool own = read_secret_file(at("theirs")).has_value();
    const bool groups = read_secret_file(at("roots")).has_value();
    ::_exit(became && own && groups ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

TEST_F(SecretFile, SE_143_WhenModesAreWaived_WarnsAndReads) {
  make("a", "text", 0644);
  set_secret_file_rule(SecretFileRule::kWarn);
  ::testing::internal::CaptureStderr();
  EXPECT_EQ(read("a"), "text");
  EXPECT_THAT(::testing::internal::GetCapturedStderr(), HasSubstr("open to others"));
  ASSERT_EQ(::mkfifo(at("fifo").c_str(), 0600), 0);
  EXPECT_EQ(read("fifo"), "! is not a regular file");
}

TEST_F(SecretFile, SE_142_WhenReplaced_ModeAndTextAreNewAndNothingElseStays) {
  const mode_t before = ::umask(0);
  ASSERT_TRUE(replace_file(at("a"), "one", 0600));
  ASSERT_TRUE(replace_file(at("a"), "two", 0644));
  ASSERT_TRUE(replace_file(at("b"), "three", 0600));
  ::umask(before);
  EXPECT_EQ(text_of("a"), "two");
  struct stat about {};
  ASSERT_EQ(::stat(at("a").c_str(), &about), 0);
  EXPECT_EQ(about.st_mode & 0777, 0644U);
  ASSERT_EQ(::stat(at("b").c_str(), &about), 0);
  EXPECT_EQ(about.st_mode & 0777, 0600U);
  EXPECT_THAT(names(), ElementsAre("a", "b"));
}

TEST_F(SecretFile, SE_T060_WhenALinkIsInThePlace_WhatItLeadsToIsNotTouched) {
  make("victim", "whole", 0600);
  fs::create_symlink("victim", at("link"));
  fs::create_hard_link(at("victim"), at("hard"));
  ASSERT_TRUE(replace_file(at("link"), "new", 0600));
  ASSERT_TRUE(replace_file(at("hard"), "new", 0600));
  EXPECT_EQ(text_of("victim"), "whole");
  EXPECT_EQ(text_of("link"), "new");
  EXPECT_FALSE(fs::is_symlink(at("link")));
  EXPECT_EQ(text_of("hard"), "new");
}

TEST_F(SecretFile, SE_T060_WhenTheDiskIsFullHalfWay_TheOldFileIsWhole) {
  ASSERT_TRUE(replace_file(at("a"), "old", 0600));
  const pid_t child = ::fork();
  if (child == 0) {
    std::signal(SIGXFSZ, SIG_IGN);
    const rlimit most{1'000, 1'000};  // a write goes half-way, the next one fails
    const bool limited = ::setrlimit(RLIMIT_FSIZE, &most) == 0;
    const auto written = replace_file(at("a"), std::string(5'000, 'n'), 0600);
    ::_exit(limited && !written && written.error().code() == Errc::kIo ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  EXPECT_EQ(text_of("a"), "old");
  EXPECT_THAT(names(), ElementsAre("a"));
  EXPECT_EQ(replace_file(at("no/folder"), "x", 0600).error().code(), Errc::kIo);
}

TEST_F(SecretFile, SE_142_WhenCreated_OnlyTheFirstOneDoes) {
  const auto first = create_file(at("a"), "one", 0600);
  const auto second = create_file(at("a"), "two", 0600);
  ASSERT_TRUE(first && second);
  EXPECT_TRUE(*first);
  EXPECT_FALSE(*second);
  EXPECT_EQ(text_of("a"), "one");
  fs::create_symlink("elsewhere", at("dangling"));
  const auto third = create_file(at("dangling"), "three", 0600);
  ASSERT_TRUE(third);
  EXPECT_FALSE(*third);
  EXPECT_THAT(names(), ElementsAre("a", "dangling"));
}

}  // namespace
}  // namespace kintsugi
