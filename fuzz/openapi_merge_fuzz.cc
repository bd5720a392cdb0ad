// Bytes as the OpenAPI v2 document of a shard. What is merged must be a document that can be merged
// again.

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "aggregation/documents/openapi_merge.h"
#include "krm/protobuf_wire.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace kintsugi;
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  std::string own;
  krm::put_bytes(own, 1, "2.0");
  krm::put_bytes(own, 9, {});
  const auto merged = aggregation::merge_openapi_v2_protobuf(bytes, own);
  if (merged && aggregation::merge_openapi_v2_protobuf(*merged, own) != merged) {
    std::abort();
  }
  if (aggregation::merge_openapi_v2_protobuf(own, bytes).has_value() != merged.has_value()) {
    std::abort();
  }
  return 0;
}
