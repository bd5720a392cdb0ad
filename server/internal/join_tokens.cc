#include "server/internal/join_tokens.h"

#include <algorithm>
#include <array>
#include <ctime>
#include <utility>

#include "auth/mac.h"
#include "base/secret_file.h"
#include "base/strings.h"
#include "server/files.h"
#include "server/internal/folder_lock.h"

namespace kintsugi::server {
namespace {

using krm::Json;

constexpr std::int64_t kKept = 86'400;
constexpr std::size_t kIdBytes = 4, kSecretBytes = 16;
constexpr std::pair<JoinRole, std::string_view> kRoles[] = {
    {JoinRole::kShard, "shard"},
    {JoinRole::kProxy, "proxy"},
    {JoinRole::kReviewed, "proxy-reviewed"}};

std::string mac_of(std::string_view key, std::string_view id, std::string_view secret) {
  const auto mac = auth::hmac_sha256(key, std::string(id) + "." + std::string(secret));
  return hex_encode({reinterpret_cast<const char*>(mac.data()), mac.size()});
}

Json row_of(const JoinToken& token, std::string mac) {
  Json::Array hosts;
  for (const std::string& host : token.hosts) {
    hosts.emplace_back(host);
  }
  return Json::object({{"id", token.id},
                       {"role", name_of(token.role)},
                       {"name", token.name},
                       {"hosts", Json(std::move(hosts))},
                       {"ends", token.ends_at},
                       {"used", token.used_at},
                       {"mac", std::move(mac)}});
}

std::int64_t number_of(const Json& row, std::string_view key) {
  const Json* value = row.find(key);
  return value == nullptr ? 0 : value->as_integer();
}

Expected<JoinToken> token_of(const Json& row) {
  auto role = join_role_of(row.text({"role"}));
  if (!role) {
    return fail(std::move(role.error()));
  }
  JoinToken token;
  token.id = row.text({"id"});
  token.role = *role;
  token.name = row.text({"name"});
  if (const Json* hosts = row.find("hosts")) {
    for (const Json& host : hosts->items()) {
      token.hosts.emplace_back(host.as_string());
    }
  }
  token.ends_at = number_of(row, "ends");
  token.used_at = number_of(row, "used");
  return token;
}

}  // namespace

std::string_view name_of(JoinRole role) noexcept {
  for (const auto& [known, name] : kRoles) {
    if (known == role) {
      return name;
    }
  }
  return "";
}

Expected<JoinRole> join_role_of(std::string_view name) {
  for (const auto& [role, known] : kRoles) {
    if (known == name) {
      return role;
    }
  }
  return fail(Errc::kConfig,
              "\"" + std::string(name) + "\" is none of shard, proxy, proxy-reviewed");
}

/// Made by whoever comes first. Without the key nobody can try secrets against the file.
Expected<Secret> JoinTokens::secret_key() const {
  const std::string path = folder_ + "/join-tokens.key";
  if (!file_exists(path)) {
    if (auto made = create_file(path, hex_encode(random_bytes(32)) + "\n", 0600); !made) {
      return fail(std::move(made.error()));
    }
  }
  return read_secret_file(path);
}

Expected<Json> JoinTokens::load() const {
  const std::string path = folder_ + "/join-tokens.json";
  if (!file_exists(path)) {
    return Json(Json::Array());
  }
  auto text = read_secret_file(path);
  if (!text) {
    return fail(std::move(text.error()));
  }
  auto rows = Json::parse(text->view());
  if (!rows || !rows->is_array()) {
    return fail(Errc::kConfig, path + ": is no list of tokens");
  }
  const std::int64_t now = std::time(nullptr);
  Json::Array kept;
  for (const Json& row : rows->items()) {
    if (number_of(row, "ends") + kKept > now) {
      kept.push_back(row);
    }
  }
  return Json(std::move(kept));
}

Expected<void> JoinTokens::save(const Json& rows) const {
  return write_file(folder_ + "/join-tokens.json", rows.dump() + "\n", 0600);
}

Expected<std::string> JoinTokens::create(JoinToken token) const {
  const auto lock = lock_folder(folder_);
  if (!lock) {
    return fail(lock.error().clone());
  }
  auto key = secret_key();
  auto rows = key ? load() : Expected<Json>(fail(key.error().clone()));
  if (!rows) {
    return fail(std::move(rows.error()));
  }
  token.id = hex_encode(random_bytes(kIdBytes));
  token.used_at = 0;
  const std::string secret = hex_encode(random_bytes(kSecretBytes));
  rows->push_back(row_of(token, mac_of(key->view(), token.id, secret)));
  if (auto saved = save(*rows); !saved) {
    return fail(std::move(saved.error()));
  }
  return token.id + "." + secret;
}

Expected<std::vector<JoinToken>> JoinTokens::list() const {
  auto rows = load();
  if (!rows) {
    return fail(std::move(rows.error()));
  }
  std::vector<JoinToken> out;
  for (const Json& row : rows->items()) {
    auto token = token_of(row);
    if (!token) {
      return fail(std::move(token.error()));
    }
    out.push_back(std::move(*token));
  }
  return out;
}

Expected<void> JoinTokens::revoke(std::string_view id) const {
  const auto lock = lock_folder(folder_);
  if (!lock) {
    return fail(lock.error().clone());
  }
  auto rows = load();
  if (!rows) {
    return fail(std::move(rows.error()));
  }
  if (std::erase_if(rows->edit_items(), [id](const Json& row) { return row.text({"id"}) == id; }) ==
      0) {
    return fail(Errc::kNotFound, "there is no token " + std::string(id));
  }
  return save(*rows);
}

Expected<JoinToken> JoinTokens::take(std::string_view token, std::int64_t now) const {
  const auto lock = lock_folder(folder_);
  if (!lock) {
    return fail(lock.error().clone());
  }
  auto key = secret_key();
  auto rows = key ? load() : Expected<Json>(fail(key.error().clone()));
  if (!rows) {
    return fail(std::move(rows.error()));
  }
  const std::size_t dot = token.find('.');
  const std::string_view id = token.substr(0, dot);
  const std::string_view secret = dot == std::string_view::npos ? "" : token.substr(dot + 1);
  const std::string mac = mac_of(key->view(), id, secret);
  for (Json& row : rows->edit_items()) {
    if (row.text({"id"}) != id || !auth::equal_in_constant_time(row.text({"mac"}), mac)) {
      continue;
    }
    auto found = token_of(row);
    if (!found || found->used_at != 0 || found->ends_at <= now) {
      break;
    }
    found->used_at = now;
    row = row_of(*found, mac);
    if (auto saved = save(*rows); !saved) {
      return fail(std::move(saved.error()));
    }
    return found;
  }
  return fail(Errc::kForbidden, "the token is not known, or no longer good");
}

}  // namespace kintsugi::server
