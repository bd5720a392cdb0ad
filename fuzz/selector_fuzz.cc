// Label and field selectors: what parses has a canonical form that parses to the same.
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "krm/selector.h"

using kintsugi::Expected;
using kintsugi::krm::FieldSelector;
using kintsugi::krm::Json;
using kintsugi::krm::Selector;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  if (const Expected<Selector> selector = Selector::parse(text)) {
    const Expected<Selector> again = Selector::parse(selector->to_string());
    const Json labels = Json::object({{"a", "1"}, {"k", "v"}});
    if (!again || !(*again == *selector) || again->matches(labels) != selector->matches(labels)) {
      std::abort();
    }
  }
  if (const Expected<Json> json = Json::parse(text)) {
    const Expected<Selector> selector = Selector::from_json(*json);
    if (selector && !Selector::parse(selector->to_string())) {
      std::abort();
    }
  }
  const Expected<FieldSelector> fields = FieldSelector::parse(text);
  if (fields && fields->terms().size() > size) {
    std::abort();
  }
  return 0;
}
