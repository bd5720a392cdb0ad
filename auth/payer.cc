#include "auth/payer.h"

#include <array>

#include "base/digest.h"
#include "base/strings.h"

namespace kintsugi::auth {
namespace {

constexpr std::size_t kMostBearers = 65'536;
constexpr Duration kRemembered = seconds(600);

std::string bearer_payer(std::string_view credential) {
  const std::array<unsigned char, 32> digest = sha256(credential);
  return "bearer " + hex_encode({reinterpret_cast<const char*>(digest.data()), digest.size()});
}

}  // namespace

net::BodyPayer payer_of(const UserInfo& user, std::string_view address, const TreeOf& tree_of) {
  if (user.name.empty() || user.name == kAnonymous) {
    return {net::address_payer(address), false, {}};
  }
  if (parse_service_account_user(user.name)) {
    const std::vector<std::string>* cluster = user.extra_values(kExtraClusterName);
    if (cluster != nullptr && !cluster->empty()) {
      return {"accounts of " + (tree_of ? tree_of(cluster->front()) : cluster->front()), true, {}};
    }
  }
  return {"user " + user.name, true, {}};
}

void BearerBook::note_accepted(const http::HeaderList& headers, TimePoint now) {
  const std::string_view credential = headers.get("authorization");
  if (credential.empty()) {
    return;
  }
  if (seen_.size() >= kMostBearers) {
    std::erase_if(seen_, [now](const auto& one) { return now - one.second >= kRemembered; });
  }
  if (seen_.size() >= kMostBearers) {
    seen_.clear();
  }
  seen_[bearer_payer(credential)] = now;
}

std::string BearerBook::payer(const http::HeaderList& headers, TimePoint now) const {
  const std::string_view credential = headers.get("authorization");
  if (credential.empty() || seen_.empty()) {
    return {};
  }
  std::string payer = bearer_payer(credential);
  const auto found = seen_.find(payer);
  return found != seen_.end() && now - found->second < kRemembered ? payer : std::string();
}

std::string_view last_forwarded(const http::HeaderList& headers) noexcept {
  std::string_view last;
  for (std::size_t i = 0; i < headers.size(); ++i) {
    if (headers[i].name == "x-forwarded-for") {
      last = headers[i].value;
    }
  }
  return trim(last.substr(last.rfind(',') + 1));  // npos + 1 is 0
}

std::string connection_of(const http::PeerInfo& peer) {
  return peer.address + ' ' + std::to_string(peer.port);
}

}  // namespace kintsugi::auth
