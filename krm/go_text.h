#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace kintsugi::krm {

/// strconv.Quote: what %q prints. Double quotes; \a \b \f \n \r \t \v, \xNN for other control
/// characters and for bytes that are no UTF-8, \u and \U for what Go holds to be unprintable
/// (approximated: controls, format characters, surrogates, private use, spaces but U+0020).
[[nodiscard]] std::string go_quote(std::string_view text);

/// A byte as error texts of encoding/json show it: 'x', '\'', '"', '\n', 'Ã' for 0xC3.
[[nodiscard]] std::string go_quote_byte(char c);

/// []string{"a", "b"} as %#v prints it.
[[nodiscard]] std::string go_string_slice(const std::vector<std::string>& items);

/// What Kubernetes says of a kind that its decoder does not know.
[[nodiscard]] std::string not_registered(std::string_view api_version, std::string_view kind);

}  // namespace kintsugi::krm
