#include "proxy/console/internal/view_changes.h"

#include <gtest/gtest.h>

namespace kintsugi::proxy {
namespace {

krm::Json row(const char* id, int size) { return krm::Json::object({{"id", id}, {"size", size}}); }

TEST(ViewChanges, OP705_OnlyWhatChanged_IsTold) {
  ViewChanges view("shards");
  EXPECT_EQ(view.reset(), R"({"view":"shards","op":"reset","items":[]})"
                          "\n");
  EXPECT_EQ(view.take({row("a", 1), row("b", 2)}),
            R"({"view":"shards","op":"upsert","items":[{"id":"a","size":1},{"id":"b","size":2}]})"
            "\n");
  EXPECT_EQ(view.take({row("a", 1), row("b", 2)}), "");
  EXPECT_EQ(view.take({row("a", 7)}),
            R"({"view":"shards","op":"upsert","items":[{"id":"a","size":7}]})"
            "\n"
            R"({"view":"shards","op":"remove","items":[{"id":"b"}]})"
            "\n");
  EXPECT_EQ(view.reset(), R"({"view":"shards","op":"reset","items":[{"id":"a","size":7}]})"
                          "\n");
}

}  // namespace
}  // namespace kintsugi::proxy
