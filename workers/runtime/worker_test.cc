#include "workers/runtime/worker.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "net/testing/support.h"

namespace kintsugi::workers {
namespace {

using net::testing::run_until;

TEST(Worker, RT12_AUnitWithoutAPlaceForItsJournalIsNotReadyAndBeginsWhenThereIsOne) {
  char folder[] = "/tmp/kintsugi-worker-XXXXXX";
  ASSERT_NE(::mkdtemp(folder), nullptr);
  const std::string data = std::string(folder) + "/data";
  std::ofstream(data) << "a file, where a folder is wanted";
  net::Loop loop("test");
  WorkerParams params;
  params.server = "http://127.0.0.1:1";  // nobody is there
  params.lease_clusters = {"root:leases"};
  params.data_dir = data;
  params.begin_again = milliseconds(10);
  params.upstream = [](const net::Url& url) -> Expected<net::UpstreamParams> {
    net::UpstreamParams out;
    out.url = url;
    return out;
  };
  int begun = 0;
  {
    Worker worker(loop, std::move(params), {"role", [&](Unit&) {
                                              ++begun;
                                              return std::make_unique<RoleWork>();
                                            }});
    ASSERT_TRUE(worker.start().has_value());
    ASSERT_TRUE(run_until(loop, [&] { return begun >= 3; })) << "it is tried again";
    EXPECT_TRUE(worker.units().empty());
    EXPECT_NE(worker.not_ready().find(data), std::string::npos) << worker.not_ready();
    std::filesystem::remove(data);
    ASSERT_TRUE(run_until(loop, [&] { return worker.units().size() == 1; }));
    EXPECT_EQ(worker.not_ready().find(data), std::string::npos) << worker.not_ready();
    EXPECT_NE(worker.not_ready(), "") << "there is no server, so that it waits for its Leases";
    bool done = false;
    worker.stop([&] { done = true; });
    ASSERT_TRUE(run_until(loop, [&] { return done; }));
  }
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace kintsugi::workers
