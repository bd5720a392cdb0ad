#include "controlplane/clusters/trust.h"

#include <atomic>

#include "auth/user.h"
#include "base/log.h"
#include "controlplane/internal/names.h"

namespace kintsugi::controlplane {
namespace {

using krm::Json;

constexpr std::uint64_t kLogged = 100;
constexpr std::string_view kTenancyVersion = "tenancy.kcp.io/v1alpha1";

constexpr std::array<std::string_view, kUntrustedValues> kNames = {
    "workspace-placement", "workspace-cluster", "workspace-owner",
    "required-groups",     "cluster-path",      "cluster-owner",
    "created-by",          "admin-binding",     "home"};

std::array<std::atomic<std::uint64_t>, kUntrustedValues>& counters() noexcept {
  static std::array<std::atomic<std::uint64_t>, kUntrustedValues> all{};
  return all;
}

}  // namespace

void note_untrusted(UntrustedValue value, std::string_view cluster, std::string_view name,
                    std::string_view detail) {
  const auto index = static_cast<std::size_t>(value);
  const std::uint64_t count = counters()[index].fetch_add(1, std::memory_order_relaxed) + 1;
  if (count <= kLogged || count % 1'000 == 0) {
    log_warn("a value in an object is not believed", {{"fact", kNames[index]},
                                                      {"cluster", cluster},
                                                      {"name", name},
                                                      {"detail", detail},
                                                      {"count", count}});
  }
}

std::uint64_t untrusted_count(UntrustedValue value) noexcept {
  return counters()[static_cast<std::size_t>(value)].load(std::memory_order_relaxed);
}

std::string_view untrusted_name(UntrustedValue value) noexcept {
  return kNames[static_cast<std::size_t>(value)];
}

bool is_kcp_extra(std::string_view key) noexcept {
  constexpr std::string_view kDomain = "kcp.io";
  const std::string_view domain = key.substr(0, key.find('/'));
  return domain == kDomain || (domain.size() > kDomain.size() && domain.ends_with(kDomain) &&
                               domain[domain.size() - kDomain.size() - 1] == '.');
}

Json clean_owner(const Json& user) {
  Json out = Json::object();
  for (const std::string_view member : {"username", "uid"}) {
    if (const std::string_view value = user.text({member}); !value.empty()) {
      out[member] = value;
    }
  }
  if (const Json* groups = user.find("groups"); groups != nullptr && groups->is_array()) {
    Json kept = Json::array();
    for (const Json& group : groups->items()) {
      const std::string_view name = group.as_string();
      if (name != auth::kGroupMasters && !name.starts_with("system:kcp:")) {
        kept.push_back(group);
      }
    }
    if (kept.size() > 0) {
      out["groups"] = std::move(kept);
    }
  }
  if (const Json* extra = user.find("extra"); extra != nullptr && extra->is_object()) {
    Json kept = Json::object();
    for (const krm::JsonMember& member : extra->members()) {
      if (!is_kcp_extra(member.key)) {
        kept[member.key] = member.value.is_null() ? Json::array() : member.value;
      }
    }
    if (kept.size() > 0) {
      out["extra"] = std::move(kept);
    }
  }
  return out;
}

bool is_owned_by(const Json& logical_cluster, std::string_view cluster, std::string_view name,
                 std::string_view uid) {
  const Json* owner = logical_cluster.at({"spec", "owner"});
  return owner != nullptr && !uid.empty() && owner->text({"apiVersion"}) == kTenancyVersion &&
         owner->text({"resource"}) == kWorkspaces && owner->text({"name"}) == name &&
         owner->text({"cluster"}) == cluster && owner->text({"uid"}) == uid;
}

}  // namespace kintsugi::controlplane
