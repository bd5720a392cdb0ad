#include "proxy/console/internal/static_files.h"

#include <gtest/gtest.h>

namespace kintsugi::proxy {
namespace {

TEST(StaticFiles, OP702_ThePageThatIsBuiltIn_IsSmall) {
  bool page = false;
  std::size_t script = 0;
  for (const PageFile& file : page_files()) {
    page = page || (file.name == "index.html" && file.bytes.starts_with("<!doctype html>"));
    script += file.name.ends_with(".js") ? file.bytes.size() : 0;
  }
  EXPECT_TRUE(page);
  EXPECT_GT(script, 10'000U);
  EXPECT_LT(script, 200'000U);
}

}  // namespace
}  // namespace kintsugi::proxy
