#include "workers/runtime/lease/lease_record.h"

#include <algorithm>

#include "base/strings.h"

namespace kintsugi::workers {
namespace {

constexpr std::size_t kIdentityBytes = 16;
constexpr std::size_t kMaxHost = 63;

Expected<std::string> spec_text(const krm::Json& object, std::string_view field) {
  const krm::Json* value = object.at({"spec", field});
  if (value == nullptr || value->is_null()) {
    return std::string();
  }
  if (!value->is_string()) {
    return fail(Errc::kInvalid, "Lease: spec." + std::string(field) + " is no string");
  }
  return std::string(value->as_string());
}

Expected<std::int64_t> spec_number(const krm::Json& object, std::string_view field) {
  const krm::Json* value = object.at({"spec", field});
  if (value == nullptr || value->is_null()) {
    return std::int64_t{0};
  }
  if (!value->is_integer()) {
    return fail(Errc::kInvalid, "Lease: spec." + std::string(field) + " is no integer");
  }
  return value->as_integer();
}

}  // namespace

std::string_view LeaseRecord::annotation(std::string_view key) const noexcept {
  for (const auto& [name_of, value] : annotations) {
    if (name_of == key) {
      return value;
    }
  }
  return {};
}

bool LeaseRecord::same_writing(const LeaseRecord& other) const noexcept {
  return uid == other.uid && rv == other.rv && holder == other.holder &&
         transitions == other.transitions && duration_s == other.duration_s &&
         renew_time == other.renew_time && acquire_time == other.acquire_time;
}

Duration LeaseRecord::patience(Duration configured) const noexcept {
  if (transitions < 0 || duration_s <= 0) {
    return configured;
  }
  constexpr std::int64_t most =
      std::chrono::duration_cast<std::chrono::seconds>(kMaxLeaseDuration).count();
  return seconds(std::min(duration_s, most));
}

Expected<LeaseRecord> parse_lease(const krm::Json& object) {
  if (!object.is_object() || object.text({"kind"}) != "Lease") {
    return fail(Errc::kInvalid, "Lease: the object is of another kind");
  }
  LeaseRecord out;
  out.name = object.text({"metadata", "name"});
  out.uid = object.text({"metadata", "uid"});
  out.rv = object.text({"metadata", "resourceVersion"});
  if (out.name.empty() || out.uid.empty() || out.rv.empty()) {
    return fail(Errc::kInvalid, "Lease: metadata lacks name, uid or resourceVersion");
  }
  for (const auto& [field, target] : {std::pair{"holderIdentity", &LeaseRecord::holder},
                                      std::pair{"acquireTime", &LeaseRecord::acquire_time},
                                      std::pair{"renewTime", &LeaseRecord::renew_time}}) {
    Expected<std::string> text = spec_text(object, field);
    if (!text) {
      return fail(std::move(text).error());
    }
    out.*target = std::move(*text);
  }
  for (const auto& [field, target] : {std::pair{"leaseDurationSeconds", &LeaseRecord::duration_s},
                                      std::pair{"leaseTransitions", &LeaseRecord::transitions}}) {
    const Expected<std::int64_t> number = spec_number(object, field);
    if (!number) {
      return fail(number.error().clone());
    }
    out.*target = *number;
  }
  if (const krm::Json* annotations = object.at({"metadata", "annotations"})) {
    for (const krm::JsonMember& member : annotations->members()) {
      out.annotations.emplace_back(member.key, member.value.as_string());
    }
  }
  return out;
}

Expected<LeaseRecord> parse_lease(std::string_view text) {
  krm::Json::ParseOptions options;
  options.max_depth = 256;
  const Expected<krm::Json> object = krm::Json::parse(text, options);
  if (!object) {
    return fail(object.error().clone().at("Lease"));
  }
  return parse_lease(*object);
}

krm::Json lease_body(const LeaseWrite& write, std::int64_t unix_us) {
  const std::string now = rfc3339_micro(unix_us);
  krm::Json out = krm::Json::object({{"apiVersion", "coordination.k8s.io/v1"}, {"kind", "Lease"}});
  out.make({"metadata", "name"}) = write.name;
  out.make({"metadata", "namespace"}) = kLeaseNamespace;
  if (!write.rv.empty()) {
    out.make({"metadata", "resourceVersion"}) = write.rv;
    out.make({"metadata", "uid"}) = write.uid;
  }
  for (const auto& [key, value] : write.annotations) {
    out.make({"metadata", "annotations", key}) = value;
  }
  krm::Json& spec = out["spec"];
  spec["holderIdentity"] = write.holder;
  spec["leaseDurationSeconds"] = write.duration_s;
  spec["leaseTransitions"] = write.transitions;
  spec["renewTime"] = now;
  if (write.acquisition || write.acquire_time.empty()) {
    spec["acquireTime"] = now;
  } else {
    spec["acquireTime"] = write.acquire_time;
  }
  return out;
}

Expected<std::string> lease_identity(std::string_view host, std::int64_t pid,
                                     std::string_view random) {
  if (random.size() != kIdentityBytes) {
    return fail(Errc::kInvalid, "an identity needs 16 random bytes");
  }
  std::string out = to_lower(host.substr(0, kMaxHost));
  for (char& letter : out) {
    const bool plain = (letter >= 'a' && letter <= 'z') || (letter >= '0' && letter <= '9');
    letter = plain ? letter : '-';
  }
  if (out.empty() || out.front() == '-') {
    out.insert(out.begin(), 'h');
  }
  return out + '-' + std::to_string(pid) + '-' + hex_encode(random);
}

}  // namespace kintsugi::workers
