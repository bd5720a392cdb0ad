#include "krm/version.h"

#include "base/version.h"
#include "krm/json.h"

namespace kintsugi::krm {

const std::string& version_document() {
  static const std::string document =
      Json::object({{"major", "1"},
                    {"minor", "36"},
                    {"gitVersion", "v1.36.0" + std::string(kVersionMark) + product_version()},
                    {"gitCommit", ""},
                    {"gitTreeState", "clean"},
                    {"buildDate", "1970-01-01T00:00:00Z"},
                    {"goVersion", ""},
                    {"compiler", "gc"},
                    {"platform", "linux/amd64"}})
          .dump_pretty();
  return document;
}

}  // namespace kintsugi::krm
