#include "base/version.h"

namespace kintsugi {

const char* product_version() noexcept { return KINTSUGI_VERSION; }

namespace {
const char* g_build_version = KINTSUGI_VERSION;
}  // namespace

const char* build_version() noexcept { return g_build_version; }

void set_build_version(const char* version) noexcept { g_build_version = version; }

}  // namespace kintsugi
