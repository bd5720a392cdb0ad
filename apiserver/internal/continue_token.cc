#include "apiserver/internal/continue_token.h"

#include <optional>
#include <utility>

#include "apiserver/continue_keys.h"
#include "apiserver/internal/options.h"
#include "apiserver/internal/request.h"
#include "apiserver/internal/server_impl.h"
#include "auth/payer.h"
#include "base/strings.h"
#include "krm/status.h"

namespace kintsugi::apiserver {
namespace internal {
namespace {

constexpr std::size_t kRevisionBytes = 8;
constexpr std::size_t kSecretBytes = 32;

tl::unexpected<Error> bad(std::string_view why) {
  return fail(
      krm::bad_request("invalid continue token: continue key is not valid: " + std::string(why)));
}

}  // namespace

std::string ContinueToken::encode(const auth::TokenKeys& keys, std::string_view bound) const {
  std::string bytes;
  const auto number = static_cast<std::uint64_t>(revision);
  for (std::size_t i = kRevisionBytes; i-- > 0;) {
    bytes += static_cast<char>(number >> (8 * i) & 0xff);
  }
  bytes += start;
  if (following >= 0) {
    bytes += std::to_string(following);
  }
  return auth::seal_token(bytes, bound, keys.front());
}

Expected<void> ContinueToken::check(std::string_view text) {
  if (!base64url_decode(text)) {
    constexpr std::string_view kAlphabet =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    const std::size_t wrong = text.find_first_not_of(kAlphabet);
    return bad("illegal base64 data at input byte " +
               std::to_string(wrong == std::string_view::npos ? text.size() / 4 * 4 : wrong));
  }
  // Without keys no token of this form opens: it is one, or none at all.
  if (auth::open_token(text, {}, {}).error() == auth::TokenFault::kUndecodable) {
    return bad("server does not recognize this encoded version");
  }
  return {};
}

Expected<ContinueToken> ContinueToken::decode(std::string_view text, const auth::TokenKeys& keys,
                                              std::string_view bound) {
  if (Expected<void> form = check(text); !form) {
    return fail(std::move(form.error()));
  }
  const auto opened = auth::open_token(text, bound, keys);
  if (!opened && opened.error() == auth::TokenFault::kOldKey) {
    return fail(Errc::kExpired,
                "The provided continue parameter is too old to display a consistent list result. "
                "You must start a new list without the continue parameter.");
  }
  if (!opened || opened->size() <= kRevisionBytes) {
    return bad("it was not made here, or for another list");
  }
  ContinueToken token;
  std::uint64_t number = 0;
  for (const char c : opened->substr(0, kRevisionBytes)) {
    number = number << 8 | static_cast<unsigned char>(c);
  }
  token.revision = static_cast<std::int64_t>(number);
  token.start = opened->substr(kRevisionBytes);
  if (const std::size_t end = token.start.rfind('\0'); end != std::string::npos) {
    token.following =
        parse_decimal<std::int64_t>(std::string_view(token.start).substr(end + 1)).value_or(-1);
    token.start.resize(end + 1);
  }
  if (token.revision == 0 || token.revision < -1) {
    return bad("incorrect encoded start resourceVersion (version meta.k8s.io/v1)");
  }
  return token;
}

std::string bound_list(const Request& request, std::string_view ns, const ListOptions& options) {
  const auth::UserInfo& user = request.caller != nullptr         ? *request.caller
                               : request.impersonator != nullptr ? *request.impersonator
                                                                 : request.user;
  return auth::bound_to({"list", auth::payer_of(user, {}).name, request.cluster,
                         request.view != nullptr ? std::string_view(request.api_root) : "",
                         request.info.group, request.info.version, request.info.resource, ns,
                         options.label_selector, options.field_selector});
}

const auth::TokenKeys& keys_of_process() {
  static const auth::TokenKeys keys = {{0, Secret(random_bytes(kSecretBytes))}};
  return keys;
}

}  // namespace internal

void seal_continue_tokens(ApiServer& server, auth::TokenKeys keys) {
  static_cast<internal::Server&>(server).set_token_keys(std::move(keys));
}

}  // namespace kintsugi::apiserver
