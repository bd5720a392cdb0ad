#include "apiserver/internal/continue_token.h"

#include "base/strings.h"
#include "krm/json.h"
#include "krm/status.h"

namespace kintsugi::apiserver::internal {
namespace {

tl::unexpected<Error> bad(std::string_view why) {
  return fail(
      krm::bad_request("invalid continue token: continue key is not valid: " + std::string(why)));
}

}  // namespace

std::string ContinueToken::encode() const {
  std::string text = R"({"v":"meta.k8s.io/v1","rv":)" + std::to_string(revision) + R"(,"start":)";
  krm::append_json_string(text, start);
  text += '}';
  return base64url_encode(text);
}

Expected<ContinueToken> ContinueToken::decode(std::string_view text) {
  const std::optional<std::string> bytes = base64url_decode(text);
  if (!bytes) {
    constexpr std::string_view kAlphabet =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    const std::size_t wrong = text.find_first_not_of(kAlphabet);
    return bad("illegal base64 data at input byte " +
               std::to_string(wrong == std::string_view::npos ? text.size() / 4 * 4 : wrong));
  }
  Expected<krm::Json> json = krm::Json::parse(*bytes);
  if (!json) {
    return bad(json.error().message());
  }
  if (json->text({"v"}) != "meta.k8s.io/v1") {
    return bad("server does not recognize this encoded version " + std::string(json->text({"v"})));
  }
  ContinueToken token;
  const krm::Json* revision = json->find("rv");
  token.revision = revision == nullptr ? 0 : revision->as_integer();
  token.start = json->text({"start"});
  if (token.revision == 0 || token.revision < -1) {
    return bad("incorrect encoded start resourceVersion (version meta.k8s.io/v1)");
  }
  if (token.start.empty()) {
    return bad("encoded start key empty (version meta.k8s.io/v1)");
  }
  if (token.start.find("../") != std::string::npos || token.start.front() == '.') {
    return bad(token.start);
  }
  return token;
}

}  // namespace kintsugi::apiserver::internal
