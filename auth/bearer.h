#pragma once

#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "auth/jwt.h"
#include "http/headers.h"

namespace kintsugi::auth {

/// The bearer token of a request. It is taken apart once, when somebody first asks what it says
/// (SE-020), and goes with the request to everybody who judges it. Threads: one.
class Bearer {
 public:
  explicit Bearer(std::string_view text) : text_(text) {}
  Bearer(const Bearer&) = delete;
  Bearer& operator=(const Bearer&) = delete;
  ~Bearer();  ///< overwrites the text
  [[nodiscard]] const std::string& text() const noexcept { return text_; }
  /// What it says, nothing verified; null: it is no JSON Web Token. Lives as long as this.
  [[nodiscard]] const Jwt* jwt() const;
  /// One of its claims that is text; "": none.
  [[nodiscard]] std::string_view claim(std::initializer_list<std::string_view> path) const;

 private:
  std::string text_;
  mutable bool read_ = false;
  mutable std::optional<Jwt> jwt_;
};
using BearerPtr = std::shared_ptr<const Bearer>;

/// The token of "Authorization: Bearer <token>" (scheme in any case); of text "" when the scheme is
/// another or no token follows. null: no Authorization header.
[[nodiscard]] BearerPtr bearer_of(const http::HeaderList& headers);

}  // namespace kintsugi::auth
