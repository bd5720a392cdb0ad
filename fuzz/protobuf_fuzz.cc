// Bytes as a protobuf body. What decodes must survive its own encoding.

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "krm/protobuf.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace kintsugi::krm;
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const auto object = decode_protobuf(bytes, "v1", "ConfigMap");
  if (!object) {
    return 0;
  }
  const auto encoded = encode_protobuf(*object);
  if (encoded) {
    const auto again = decode_protobuf(*encoded);
    if (again && !(*again == *object)) {
      std::abort();
    }
  }
  return 0;
}
