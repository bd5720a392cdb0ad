#include "base/sync_path.h"

#include <gtest/gtest.h>

#include <cerrno>

namespace kintsugi {
namespace {

TEST(SyncPath, FilesAndFoldersAreSyncedAndFaultsAreTold) {
  EXPECT_EQ(sync_path("/tmp"), 0);
  EXPECT_EQ(sync_path("/tmp/there is/no such folder"), ENOENT);
  EXPECT_EQ(sync_path("/dev/null"), EINVAL) << "nothing to sync";
}

}  // namespace
}  // namespace kintsugi
