#include "aggregation/asking/internal/list_accept.h"

namespace kintsugi::aggregation {

std::string list_accept(std::string_view accept) {
  constexpr std::string_view kOne = "as=PartialObjectMetadata";
  std::string out(accept);
  for (std::size_t at = out.find(kOne); at != std::string::npos; at = out.find(kOne, at)) {
    at += kOne.size();
    if (out.find_first_of(";, \t", at) == at || at == out.size()) {
      out.insert(at, "List");
    }
  }
  return out;
}

}  // namespace kintsugi::aggregation
