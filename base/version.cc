#include "base/version.h"

namespace kintsugi {

const char* product_version() noexcept { return KINTSUGI_VERSION; }

}  // namespace kintsugi
