// An Accept header: as many alternatives as are written at most, by whatever the kind offers one
// form at most, and the same each time.
#include <algorithm>
#include <cstdint>
#include <string_view>

#include "apiserver/internal/media.h"
#include "fuzz/pieces.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace kintsugi::apiserver::internal;  // NOLINT
  using kintsugi::fuzz::check;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto clauses = parse_accept(text);
  check(clauses.size() <= static_cast<std::size_t>(std::count(text.begin(), text.end(), ',')) + 1);
  for (const AcceptClause& clause : clauses) {
    check(clause.type.size() <= std::max<std::size_t>(size, 3) &&
          std::none_of(clause.type.begin(), clause.type.end(),
                       [](char c) { return c >= 'A' && c <= 'Z'; }));
  }
  for (const bool protobuf : {false, true}) {
    for (const bool transforms : {false, true}) {
      const Offer offer{.yaml = true, .protobuf = protobuf, .transforms = transforms};
      const auto form = negotiate(clauses, offer);
      check(!form || transforms || form->shape == Shape::kObject);
      check(!form || protobuf || form->format != Format::kProtobuf ||
            form->shape != Shape::kObject);
      const auto again = negotiate(parse_accept(text), offer);
      check(form.has_value() == again.has_value() &&
            (!form || (form->format == again->format && form->shape == again->shape)));
    }
  }
  (void)error_format(clauses);
  (void)wants_pretty(text, clauses, text);
  return 0;
}
