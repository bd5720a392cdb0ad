#include "server/internal/file_watch.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace kintsugi::server {
namespace {

using Files = std::vector<std::string>;

struct Fixture {
  explicit Fixture(Duration poll = seconds(3600))
      : watch(loop, poll, [this](const Files& files) {
          told.push_back(files);
          loop.stop();
        }) {
    char name[] = "/tmp/kintsugi-watch-XXXXXX";
    folder = ::mkdtemp(name);
  }
  ~Fixture() { std::filesystem::remove_all(folder); }
  [[nodiscard]] std::string path(const std::string& name) const { return folder + "/" + name; }
  void write(const std::string& name, const std::string& text) const {
    std::ofstream(path(name)) << text;
  }
  /// Until something was told; a test that hangs here fails by the limit.
  void run() {
    net::Timer limit(loop);
    limit.start(seconds(20), [this] { loop.stop(); });
    loop.run();
  }
  net::Loop loop{"test"};
  std::string folder;
  std::vector<Files> told;
  FileWatch watch;
};

TEST(FileWatch, WhenAFileIsRewritten_NamesIt) {
  Fixture fixture;
  fixture.write("a", "1");
  fixture.write("b", "1");
  fixture.watch.set_files({fixture.path("a"), fixture.path("b")});
  fixture.write("b", "2");
  fixture.run();
  EXPECT_EQ(fixture.told, (std::vector<Files>{{fixture.path("b")}}));
}

TEST(FileWatch, WhenAFileIsRenamedIntoPlace_NamesIt) {
  Fixture fixture;
  fixture.watch.set_files({fixture.path("a")});  // it is not there yet
  fixture.write("a.new", "1");
  std::filesystem::rename(fixture.path("a.new"), fixture.path("a"));
  fixture.run();
  EXPECT_EQ(fixture.told, (std::vector<Files>{{fixture.path("a")}}));
}

TEST(FileWatch, WhenKubernetesSwapsTheData_NamesEveryChangedFile_FP144) {
  Fixture fixture;
  for (const char* version : {"v1", "v2"}) {
    std::filesystem::create_directory(fixture.path(version));
    fixture.write(std::string(version) + "/tls.crt", version);
    fixture.write(std::string(version) + "/tls.key", version);
    fixture.write(std::string(version) + "/ca.crt", "same");
  }
  std::filesystem::create_symlink("v1", fixture.path("..data"));
  Files files;
  for (const char* name : {"ca.crt", "tls.crt", "tls.key"}) {
    std::filesystem::create_symlink(std::string("..data/") + name, fixture.path(name));
    files.push_back(fixture.path(name));
  }
  fixture.watch.set_files(files);
  std::filesystem::create_symlink("v2", fixture.path("..data_tmp"));
  std::filesystem::rename(fixture.path("..data_tmp"), fixture.path("..data"));
  fixture.run();
  EXPECT_EQ(fixture.told, (std::vector<Files>{{files[1], files[2]}}));
}

TEST(FileWatch, WhenOnlyTheFolderChanges_SaysNothing) {
  Fixture fixture(milliseconds(20));
  fixture.write("a", "1");
  fixture.watch.set_files({fixture.path("a")});
  fixture.write("other", "1");
  fixture.write("a", "1");
  EXPECT_EQ(fixture.watch.take_changed(), Files());
  fixture.write("a", "2");
  EXPECT_EQ(fixture.watch.take_changed(), Files{fixture.path("a")});
  EXPECT_EQ(fixture.watch.take_changed(), Files());
  std::filesystem::remove(fixture.path("a"));
  fixture.run();
  EXPECT_EQ(fixture.told, (std::vector<Files>{{fixture.path("a")}}));
}

}  // namespace
}  // namespace kintsugi::server
