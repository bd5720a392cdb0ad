// Protobuf lists and watch streams of shards, in any pieces: pieces never change what is found,
// what is found agrees with the decoder of objects, and an object with a marker is still the same
// object.
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "aggregation/bytes/cut_event.h"
#include "aggregation/bytes/proto_build.h"
#include "aggregation/bytes/proto_split.h"
#include "fuzz/pieces.h"
#include "krm/protobuf.h"

namespace {

using namespace kintsugi::aggregation;
using kintsugi::fuzz::check;
using kintsugi::fuzz::split_both_ways;

void check_event(const std::string& frame) {
  const auto facts = proto_event_facts(frame);
  const auto marked = proto_event_with(frame, proto_annotation_suffix("kcp.io/cluster", "m"));
  if (!facts || facts->type == EventType::kError) {
    return;
  }
  (void)proto_kept_fields(facts->facts.metadata);
  if (marked) {
    const auto again = proto_event_facts(*marked);
    check(again && again->facts.cluster == "m" && again->facts.name == facts->facts.name &&
          again->facts.revision == facts->facts.revision);
  }
  const auto object = kintsugi::krm::decode_protobuf(facts->object);
  if (object && facts->facts.kind == "ConfigMap") {
    check(object->text({"metadata", "name"}) == facts->facts.name);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  for (const std::string& frame : split_both_ways<FrameSplitter>(text)) {
    check_event(frame);
  }
  for (const std::string& item : split_both_ways<ProtoListSplitter>(text)) {
    (void)proto_item_facts(item);
  }
  (void)proto_key_of_beginning(text);
  return 0;
}
