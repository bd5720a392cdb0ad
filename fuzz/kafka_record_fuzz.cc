// Records as lines `header=value`, an empty one, and the value. Whatever they say, the event can be
// sent over HTTP, and an answer that carries it is read as the same event.
#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/strings.h"
#include "fuzz/pieces.h"
#include "workers/eventing/events/cloud_event.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace kintsugi;           // NOLINT
  using namespace kintsugi::workers;  // NOLINT
  using fuzz::check;
  std::string_view rest(reinterpret_cast<const char*>(data), size);
  KafkaRecord record;
  record.topic = "t";
  record.key = std::string(rest.substr(0, 8));
  while (!rest.empty()) {
    const std::size_t end = std::min(rest.find('\n'), rest.size());
    const std::string_view line = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    if (line.empty()) {
      break;
    }
    const std::size_t equals = std::min(line.find('='), line.size());
    record.headers.emplace_back(
        line.substr(0, equals),
        equals == line.size() ? std::nullopt : std::optional(std::string(line.substr(equals + 1))));
  }
  record.value = std::string(rest);
  Egress egress;
  egress.key_type = static_cast<KeyType>(size % 4);
  const CloudEvent event = event_of(record, ContractResource(), egress);
  for (const char* const name : {"specversion", "id", "source", "type"}) {
    check(event.find(name) != nullptr);
  }
  const http::HeaderList headers = request_headers(event);
  for (std::size_t i = 0; i < headers.size(); ++i) {
    for (const char c : headers[i].value) {
      check(c >= ' ' && c < 0x7F);
    }
  }
  for (const auto& [name, value] : event.attributes) {
    check(is_valid_utf8(value) && !name.empty());
  }
  const auto again = event_of_answer(headers, event.data);
  check(again.has_value() && *again == event);
  KafkaRecord as_record;
  for (const auto& [name, value] : record_headers(event)) {
    as_record.headers.emplace_back(name, value);
  }
  as_record.value = event.data;
  check(event_of(as_record, ContractResource(), egress) == event);
  return 0;
}
