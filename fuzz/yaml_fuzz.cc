// YAML text: what parses is written as YAML and read back to the same value.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "krm/yaml.h"
#include "krm/yaml_documents.h"

using kintsugi::Expected;
using kintsugi::krm::Json;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  std::size_t documents = 0;
  for (const std::string_view one : kintsugi::krm::yaml_documents(text)) {
    documents += one.size();
  }
  if (documents > size) {
    std::abort();  // they lie one behind the other
  }
  kintsugi::krm::YamlReport report;
  const Expected<Json> value = kintsugi::krm::parse_yaml(text, &report);
  if (!value) {
    return 0;
  }
  kintsugi::krm::YamlReport none;
  const Expected<Json> again = kintsugi::krm::parse_yaml(kintsugi::krm::to_yaml(*value), &none);
  if (!again || !(*again == *value) || !none.duplicate_keys.empty()) {
    std::abort();
  }
  return 0;
}
