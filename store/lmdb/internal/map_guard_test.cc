#include "store/lmdb/internal/map_guard.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <functional>

#include "store/lmdb/lmdb_store.h"
#include "store/testing/test_store.h"

namespace kintsugi::store {
namespace {

using ::testing::HasSubstr;
using ::testing::MatchesRegex;

struct Ended {
  int status = 0;
  std::string said;
};

/// In a process of its own.
Ended run(const std::function<void()>& work) {
  int pipe[2] = {-1, -1};
  EXPECT_EQ(::pipe(pipe), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    ::dup2(pipe[1], STDERR_FILENO);
    work();
    ::_exit(0);
  }
  ::close(pipe[1]);
  Ended out;
  char buffer[4096];
  for (ssize_t size = 0; (size = ::read(pipe[0], buffer, sizeof(buffer))) > 0;) {
    out.said.append(buffer, static_cast<std::size_t>(size));
  }
  ::close(pipe[0]);
  ::waitpid(child, &out.status, 0);
  return out;
}

TEST(MapGuard, GR_414_AFileThatWasCutEndsTheProcessWithALine) {
  const TempDir folder;
  const Ended ended = run([&folder] {
    LmdbParams params;
    params.directory = folder.data();
    params.map_limit = std::uint64_t{256} << 20;
    auto store = LmdbStore::open(std::move(params));
    for (int i = 0; store && i < 40; ++i) {
      write(**store, put("key" + std::to_string(i), std::string(100'000, 'x')));
    }
    if (::truncate((folder.data() + "/data.mdb").c_str(), 8'192) != 0) {
      ::_exit(1);
    }
    for (int i = 0; i < 40; ++i) {
      (void)(*store)->get("key" + std::to_string(i));
    }
  });
  ASSERT_TRUE(WIFEXITED(ended.status)) << ended.said;
  EXPECT_EQ(WEXITSTATUS(ended.status), 70);
  EXPECT_THAT(ended.said, HasSubstr("a page of the store cannot be read"));
  EXPECT_THAT(ended.said, HasSubstr(folder.data() + "/data.mdb"));
  EXPECT_THAT(ended.said.substr(ended.said.rfind("\"page\"")), MatchesRegex("\"page\":[0-9]+}\n"));
}

TEST(MapGuard, GR_414_ElsewhereASignalIsWhatItWas) {
  const TempDir folder;
  const Ended ended = run([&folder] {
    LmdbParams params;
    params.directory = folder.data();
    const auto store = LmdbStore::open(std::move(params));
    std::FILE* const file = std::tmpfile();
    void* const map = ::mmap(nullptr, 4'096, PROT_READ, MAP_SHARED, ::fileno(file), 0);
    const volatile char* const byte = static_cast<const char*>(map);
    (void)*byte;
  });
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  EXPECT_THAT(ended.said, HasSubstr("BUS on unknown address"));  // theirs, which it was before
#else
  ASSERT_TRUE(WIFSIGNALED(ended.status)) << ended.said;
  EXPECT_EQ(WTERMSIG(ended.status), SIGBUS);
#endif
}

}  // namespace
}  // namespace kintsugi::store
