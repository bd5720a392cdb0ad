// The last event of a forwarded watch: bytes in any pieces never confuse it, and of well-formed
// events it reads what the JSON parser reads.
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "krm/json.h"
#include "proxy/forwarding/internal/watch_tail.h"

using kintsugi::krm::Json;
using kintsugi::proxy::WatchTail;

namespace {

void feed_in_pieces(WatchTail& tail, std::string_view text, std::size_t piece) {
  while (!text.empty()) {
    const std::string_view part = text.substr(0, piece);
    const std::size_t end = tail.first_boundary(part);
    if (end != std::string_view::npos && end > part.size()) {
      std::abort();
    }
    tail.feed(part);
    text.remove_prefix(part.size());
  }
}

std::string_view version_part(std::string_view bookmark) {
  return bookmark.substr(bookmark.rfind("\"metadata\""));
}

std::string expected(const Json& event) {
  const Json* version = event.at({"object", "metadata", "resourceVersion"});
  const Json* kind = event.at({"object", "kind"});
  const Json* api = event.at({"object", "apiVersion"});
  for (const Json* text : {version, kind, api}) {
    if (text == nullptr || !text->is_string() || text->as_string().empty()) {
      return {};
    }
  }
  return std::string(version->as_string());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  for (const WatchTail::Form form : {WatchTail::Form::kJsonLines, WatchTail::Form::kLengthDelimited,
                                     WatchTail::Form::kOpaque, WatchTail::Form::kWebSocket}) {
    WatchTail whole(form, true), pieces(form, true);
    whole.feed(text);
    feed_in_pieces(pieces, text, 1 + size / 7);
    if (whole.at_boundary() != pieces.at_boundary()) {
      std::abort();
    }
    if (form == WatchTail::Form::kWebSocket) {
      continue;
    }
    const std::string one = whole.last_words(), other = pieces.last_words();
    if (!one.empty() && !other.empty() && version_part(one) != version_part(other)) {
      std::abort();  // pieces may hide a version, never show another one
    }
  }
  if (const auto event = Json::parse(text)) {
    WatchTail tail(WatchTail::Form::kJsonLines, true);
    tail.feed(event->dump() + "\n");
    const std::string bookmark = tail.last_words();
    const std::string version = expected(*event);
    const auto back = Json::parse(bookmark.empty() ? "{}" : bookmark);
    if (!back || expected(*back) != version) {
      std::abort();
    }
  }
  return 0;
}
