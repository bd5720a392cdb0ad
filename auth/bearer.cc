#include "auth/bearer.h"

#include <utility>

#include "base/secret.h"
#include "base/strings.h"

namespace kintsugi::auth {

Bearer::~Bearer() { wipe(text_); }

const Jwt* Bearer::jwt() const {
  if (!std::exchange(read_, true)) {
    if (Expected<Jwt> parsed = parse_jwt(text_)) {
      jwt_ = std::move(*parsed);
    }
  }
  return jwt_ ? &*jwt_ : nullptr;
}

std::string_view Bearer::claim(std::initializer_list<std::string_view> path) const {
  const Jwt* const parsed = jwt();
  return parsed == nullptr ? std::string_view() : parsed->claims.text(path);
}

BearerPtr bearer_of(const http::HeaderList& headers) {
  if (!headers.contains("authorization")) {
    return nullptr;
  }
  const std::string_view value = trim(headers.get("authorization"));
  const std::size_t space = value.find(' ');
  std::string_view token;
  if (space != std::string_view::npos && equals_ignore_case(value.substr(0, space), "bearer")) {
    token = value;
    token.remove_prefix(space + 1);
    token = trim(token);
  }
  return std::make_shared<const Bearer>(token.substr(0, token.find(' ')));
}

}  // namespace kintsugi::auth
