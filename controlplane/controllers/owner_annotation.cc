#include "controlplane/controllers/owner_annotation.h"

#include <map>
#include <string_view>
#include <vector>

#include "krm/json.h"

namespace kintsugi::controlplane {
namespace {

std::string quoted(std::string_view text) { return krm::Json(text).dump(); }

std::string list_of(const std::vector<std::string>& values) {
  std::string out = "[";
  for (const std::string& value : values) {
    out += (out.size() > 1 ? "," : "") + quoted(value);
  }
  return out + "]";
}

bool is_lasting_group(std::string_view group) {
  return group != auth::kGroupMasters && !group.starts_with("system:kcp:");
}

bool is_lasting_extra(std::string_view key) {
  const std::string_view domain = key.substr(0, key.find('/'));
  return domain != "kcp.io" && !domain.ends_with(".kcp.io");
}

}  // namespace

auth::UserInfo lasting_user(const auth::UserInfo& user) {
  auth::UserInfo out = user;
  std::erase_if(out.groups, [](const std::string& group) { return !is_lasting_group(group); });
  std::erase_if(out.extra, [](const auto& entry) { return !is_lasting_extra(entry.first); });
  return out;
}

std::string owner_annotation(const auth::UserInfo& user) {
  const auth::UserInfo owner = lasting_user(user);
  std::string out = "{\"username\":" + quoted(owner.name);
  if (!owner.uid.empty()) {
    out += ",\"uid\":" + quoted(owner.uid);
  }
  if (!owner.groups.empty()) {
    out += ",\"groups\":" + list_of(owner.groups);
  }
  const std::map<std::string_view, const std::vector<std::string>*> sorted = [&] {
    std::map<std::string_view, const std::vector<std::string>*> by_key;
    for (const auto& [key, values] : owner.extra) {
      by_key.emplace(key, &values);
    }
    return by_key;
  }();
  std::string extra;
  for (const auto& [key, values] : sorted) {
    extra += (extra.empty() ? "" : ",") + quoted(key) + ":" + list_of(*values);
  }
  return out + (extra.empty() ? "" : ",\"extra\":{" + extra + "}") + "}";
}

}  // namespace kintsugi::controlplane
