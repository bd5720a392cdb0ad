// What merged reads take from shards and clients: lists and events in any pieces, cursors, tokens.
// Pieces never change what is found, well-formed objects are read as the JSON parser reads them,
// and what we did not make we do not believe.
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "aggregation/bytes/cut_event.h"
#include "aggregation/bytes/json_list.h"
#include "aggregation/bytes/json_split.h"
#include "aggregation/position/continue_token.h"
#include "aggregation/position/cursor.h"
#include "fuzz/pieces.h"
#include "krm/json.h"

namespace {

using kintsugi::krm::Json;
using namespace kintsugi::aggregation;
using kintsugi::fuzz::check;
using kintsugi::fuzz::split_both_ways;

void check_event(const std::string& text) {
  const auto facts = event_facts(text);
  const auto parsed = Json::parse(text);
  if (!facts || !parsed || facts->type == EventType::kError || facts->facts.kind == "Table") {
    return;
  }
  for (const auto& [span, path] :
       {std::pair{facts->facts.name, "name"}, std::pair{facts->facts.uid, "uid"}}) {
    const Json* value = parsed->at({"object", "metadata", path});
    check(span.empty() || (value != nullptr && value->is_string()));
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  for (const std::string& event : split_both_ways<EventSplitter>(text)) {
    check_event(event);
  }
  split_both_ways<ListSplitter>(text);
  (void)json_key_of_beginning(text);

  static const auto history = [] {
    SlotChange change;
    change.present = {"uid-a", "uid-b"};
    return std::make_shared<const SlotHistory>(*SlotHistory().changed(change, 1));
  }();
  const CursorCodec codec({"/clusters/*", "", "configmaps"}, history);
  const DecodedVersion version = codec.decode(text, {true, true});
  if (version.kind == VersionClass::kCursor) {
    check(codec.format(version.components) == text);
  }
  const auto token = decode_continue(text, {codec.scope(), "v1", "", "", "", ""},
                                     {{1, kintsugi::Secret::copy_of("a secret of the fuzzer")}});
  check(!token);
  return 0;
}
