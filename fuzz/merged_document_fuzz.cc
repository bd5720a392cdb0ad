// Lines: Accept, what follows clusters/*, and the documents of two shards. What is made of them is
// made of them again, and nothing else is made of what it is made of twice.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>

#include "aggregation/documents/internal/document_build.h"

namespace {

using namespace kintsugi::aggregation;

KnownDocumentPtr document(std::string_view text) {
  return std::make_shared<const KnownDocument>(
      KnownDocument{"tag", "application/json", content_digest(text), kintsugi::SharedBytes(text)});
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::string_view rest(reinterpret_cast<const char*>(data), size);
  std::array<std::string_view, 4> lines;
  for (std::string_view& line : lines) {
    line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(line.size() + 1, rest.size()));
  }
  const DocumentRequest request = read_document_request(lines[1], lines[0]);
  (void)names_tag(lines[0], lines[1]);
  for (const Join join : {Join::kUnion, Join::kIntersection}) {
    DocumentParts parts;
    parts.join = join;
    parts.verbs = {"list", "watch"};
    parts.root = "/clusters/*";
    parts.shards = {{document(lines[2]), false}, {document(lines[3]), true}};
    const auto built = build_document(request, parts);
    const auto again = build_document(request, parts);
    if (built.has_value() != again.has_value() ||
        (built && (built->body != again->body || built->etag != again->etag))) {
      std::abort();
    }
    parts.shards[1] = parts.shards[0];
    const auto once = build_document(request, parts);
    parts.shards.pop_back();
    const auto alone = build_document(request, parts);
    if (once.has_value() != alone.has_value() || (once && once->body != alone->body)) {
      std::abort();
    }
  }
  return 0;
}
