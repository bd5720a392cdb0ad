#include <openssl/crypto.h>

#include <algorithm>
#include <utility>

#include "auth/authenticators.h"
#include "base/digest.h"
#include "base/strings.h"

namespace kintsugi::auth {
namespace {

std::string hashed(std::string_view text) { return sha256_text(text); }

/// Fields of one CSV record: quoted fields may hold commas and "" for a quote. nullopt: a quote in
/// the wrong place.
std::optional<std::vector<std::string>> fields_of(std::string_view line) {
  std::vector<std::string> fields(1);
  bool quoted = false;
  bool was_quoted = false;
  for (std::size_t i = 0; i < line.size(); ++i) {
    const char c = line[i];
    if (quoted) {
      if (c != '"') {
        fields.back() += c;
      } else if (i + 1 < line.size() && line[i + 1] == '"') {
        fields.back() += '"';
        ++i;
      } else {
        quoted = false;
      }
    } else if (c == ',') {
      fields.emplace_back();
      was_quoted = false;
    } else if (c == '"') {
      if (!fields.back().empty() || was_quoted) {
        return std::nullopt;
      }
      quoted = was_quoted = true;
    } else if (was_quoted) {
      return std::nullopt;
    } else if (!fields.back().empty() || (c != ' ' && c != '\t')) {
      fields.back() += c;
    }
  }
  return quoted ? std::nullopt : std::optional(std::move(fields));
}

}  // namespace

Expected<std::shared_ptr<TokenFile>> TokenFile::parse(std::string_view csv) {
  auto file = std::make_shared<TokenFile>();
  std::size_t number = 0;
  for (std::string_view line : split(csv, '\n')) {
    ++number;
    if (line.ends_with('\r')) {
      line.remove_suffix(1);
    }
    if (trim(line).empty() || line.front() == '#') {
      continue;
    }
    const std::optional<std::vector<std::string>> fields = fields_of(line);
    if (!fields || fields->size() < 3) {
      return fail(Errc::kConfig,
                  "line " + std::to_string(number) + ": token,user,uid[,\"groups\"] is expected");
    }
    if ((*fields)[0].empty() || (*fields)[1].empty()) {
      return fail(Errc::kConfig, "line " + std::to_string(number) + ": empty token or user");
    }
    UserInfo user;
    user.name = (*fields)[1];
    user.uid = (*fields)[2];
    if (fields->size() > 3) {
      for (const std::string_view group : split((*fields)[3], ',')) {
        if (!trim(group).empty()) {
          user.groups.emplace_back(trim(group));
        }
      }
    }
    file->users_.emplace_back(hashed((*fields)[0]), std::move(user));
  }
  std::stable_sort(file->users_.begin(), file->users_.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  return file;
}

void TokenFile::authenticate_token(const BearerPtr& token,
                                   const std::vector<std::string>& audiences,
                                   std::string_view cluster, Done done) {
  (void)audiences;
  (void)cluster;
  const std::string key = hashed(token->text());
  const auto found = std::lower_bound(
      users_.begin(), users_.end(), key,
      [](const auto& entry, const std::string& wanted) { return entry.first < wanted; });
  if (found == users_.end() || CRYPTO_memcmp(found->first.data(), key.data(), key.size()) != 0) {
    done(std::nullopt);
    return;
  }
  Result result;
  result.user = found->second;
  result.audiences = audiences;
  done(std::optional<Result>(std::move(result)));
}

}  // namespace kintsugi::auth
