// "name: value" lines: what a client sends of identity headers goes in every spelling and at once,
// and what a proxy stamps is read as the user that it stamped.
#include <cctype>
#include <cstdint>
#include <string>
#include <string_view>

#include "auth/impersonation.h"
#include "auth/request_header.h"
#include "fuzz/pieces.h"

namespace {

using kintsugi::auth::RequestHeaderConfig;
using kintsugi::auth::UserInfo;
using kintsugi::fuzz::check;
using kintsugi::http::HeaderList;

std::string plain_name(std::string_view name) {
  std::string out(name);
  for (char& c : out) {
    c = c == '_' ? '-' : static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  return out;
}

std::string text_of(const HeaderList& headers) {
  std::string out;
  for (std::size_t i = 0; i < headers.size(); ++i) {
    out.append(headers[i].name).append(":").append(headers[i].value).append("\n");
  }
  return out;
}

void check_stripped(HeaderList headers, const RequestHeaderConfig& config) {
  (void)kintsugi::auth::strip_identity_headers(headers, config);
  for (std::size_t i = 0; i < headers.size(); ++i) {
    const std::string name = plain_name(headers[i].name);
    check(name != "x-remote-user" && name != "x-remote-group" && name != "x-remote-uid" &&
          !name.starts_with("x-remote-extra-") && name != "connection");
  }
  check(!kintsugi::auth::read_identity_headers(headers, config));
  const std::string once = text_of(headers);
  check(kintsugi::auth::strip_identity_headers(headers, config) == 0 && text_of(headers) == once);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::string_view text(reinterpret_cast<const char*>(data), size);
  HeaderList headers;
  while (!text.empty() && headers.size() < 64) {
    std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(line.size() + (line.size() < text.size() ? 1 : 0));
    const std::size_t colon = line.find(": ");
    if (colon != std::string_view::npos) {
      headers.add(line.substr(0, colon), line.substr(colon + 2));
    }
  }
  const RequestHeaderConfig config;
  check_stripped(headers, config);
  const auto user = kintsugi::auth::read_identity_headers(headers, config);
  HeaderList stamped;
  if (user && kintsugi::auth::stamp_identity(stamped, *user, config)) {
    const auto again = kintsugi::auth::read_identity_headers(stamped, config);
    check(again && again->name == user->name && again->groups == user->groups &&
          again->uid == user->uid);
    HeaderList twice;
    check(kintsugi::auth::stamp_identity(twice, *again, config).has_value());
    check(text_of(twice) == text_of(stamped));
  }
  UserInfo alice;
  alice.name = "alice";
  const auto impersonated = kintsugi::auth::read_impersonation(headers, alice);
  if (impersonated && *impersonated) {
    check(kintsugi::auth::has_impersonation(headers) && !(*impersonated)->name.empty());
  }
  return 0;
}
