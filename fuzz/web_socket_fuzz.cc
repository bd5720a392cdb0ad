// Frames of a WebSocket client. First byte: the size of the pieces (0: all at once). However the
// bytes are cut, the reader tells the same, and control frames stay within their limit.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "http/web_socket.h"

namespace {

using namespace kintsugi::http;

std::string told(std::string_view bytes, std::size_t step) {
  std::string seen;
  WebSocketReader reader;
  std::uint16_t fault = 0;
  while (!bytes.empty() && fault == 0) {
    const std::string_view part = bytes.substr(0, step);
    bytes.remove_prefix(part.size());
    fault = reader.feed(
        part, kintsugi::TimePoint(), [&](WebSocketOpcode opcode, std::string_view payload) {
          if (payload.size() > 125) {
            std::abort();
          }
          seen += std::to_string(static_cast<int>(opcode)).append(":").append(payload);
          seen += web_socket_close_answer(payload);
        });
  }
  return seen + std::to_string(fault);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 2) {
    return 0;
  }
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  const std::size_t step = data[0] == 0 ? bytes.size() : data[0];
  if (told(bytes, step) != told(bytes, bytes.size())) {
    std::abort();
  }
  return 0;
}
