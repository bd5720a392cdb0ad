#include "shards/answer_log.h"

#include "base/log_level.h"

namespace kintsugi::shards {

void log_answer(std::string_view server, std::string_view method, std::string_view target, int code,
                Duration took) {
  if (is_logged(LogLevel::kDebug)) {
    log_debug("asked", {{"server", server},
                        {"method", method},
                        {"path", target.substr(0, target.find('?'))},
                        {"code", code},
                        {"ms", took / milliseconds(1)}});
  }
}

}  // namespace kintsugi::shards
