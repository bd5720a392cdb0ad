#include "auth/web_socket_token.h"

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/strings.h"
#include "http/web_socket.h"

namespace kintsugi::auth {
namespace {

constexpr std::string_view kField = "sec-websocket-protocol";
constexpr std::string_view kBearer = "base64url.bearer.authorization.k8s.io.";

/// Calls `visit` with each offered subprotocol until it returns false.
template <class Visitor>
void each_subprotocol(const http::HeaderList& headers, Visitor visit) {
  for (std::size_t i = 0; i < headers.size(); ++i) {
    const http::HeaderView field = headers[i];
    std::string_view rest = field.name == kField ? field.value : std::string_view();
    while (!rest.empty()) {
      const std::size_t comma = std::min(rest.find(','), rest.size());
      const std::string_view offered = trim(rest.substr(0, comma));
      rest.remove_prefix(std::min(comma + 1, rest.size()));
      if (!offered.empty() && !visit(offered)) {
        return;
      }
    }
  }
}

/// Visible ASCII: what every token is made of, and safe in a header.
bool is_token_text(std::string_view text) noexcept {
  return !text.empty() &&
         std::all_of(text.begin(), text.end(), [](char c) { return c > 0x20 && c < 0x7f; });
}

}  // namespace

void adopt_web_socket_token(http::RequestHead& head) {
  if (!http::asks_for_web_socket(head) || head.headers.contains("authorization")) {
    return;
  }
  std::vector<std::string_view> tokens;
  std::string others;
  each_subprotocol(head.headers, [&](std::string_view offered) {
    if (offered.starts_with(kBearer)) {
      tokens.push_back(offered.substr(kBearer.size()));
    } else {
      others.append(others.empty() ? "" : ", ").append(offered);
    }
    return true;
  });
  if (tokens.size() != 1 || others.empty()) {
    return;
  }
  if (tokens.front().find('=') != std::string_view::npos) {
    return;  // it has no padding
  }
  const std::optional<std::string> token = base64url_decode(tokens.front());
  if (!token || !is_token_text(*token)) {
    return;
  }
  head.headers.set(kField, others);
  head.headers.add("authorization", "Bearer " + *token);
}

std::string_view chosen_subprotocol(const http::RequestHead& head) noexcept {
  std::string_view chosen;
  each_subprotocol(head.headers, [&](std::string_view offered) {
    if (offered.starts_with(kBearer)) {
      return true;
    }
    chosen = offered;
    return false;
  });
  return chosen;
}

}  // namespace kintsugi::auth
