#include <algorithm>
#include <memory>
#include <utility>

#include "auth/key_pair.h"
#include "base/strings.h"
#include "kinds/common.h"
#include "krm/annotations.h"
#include "krm/names.h"
#include "krm/status.h"

namespace kintsugi::kinds {

namespace {

using krm::Json;

constexpr std::size_t kMaxDataBytes = 1'048'576;
constexpr std::string_view kImmutable = "field is immutable when `immutable` is set";

std::int64_t member_count(const Json& object, std::string_view key) {
  const Json* member = object.find(key);
  return member == nullptr ? 0 : static_cast<std::int64_t>(member->size());
}

std::string key_path(std::string_view field, std::string_view key) {
  return std::string(field) + '[' + std::string(key) + ']';
}

/// Bytes that a base64 text stands for.
std::size_t decoded_size(std::string_view text) {
  const auto filler = std::count_if(text.begin(), text.end(), [](char each) {
    return each == '=' || each == '\n' || each == '\r';
  });
  return (text.size() - static_cast<std::size_t>(filler)) * 3 / 4;
}

/// Keys of `field`, and its size in bytes.
std::size_t check_data(const Json& object, std::string_view field, bool base64,
                       std::string_view twin, std::vector<Cause>& causes) {
  std::size_t bytes = 0;
  const Json* data = object.find(field);
  if (data == nullptr) {
    return 0;
  }
  const Json* other = object.find(twin);
  for (const krm::JsonMember& member : data->members()) {
    for (const std::string& fault : krm::check_config_key(member.key)) {
      causes.push_back(krm::field_invalid(key_path(field, member.key), Json(member.key), fault));
    }
    if (other != nullptr && other->find(member.key) != nullptr) {
      causes.push_back(krm::field_invalid(key_path(field, member.key), Json(member.key),
                                          "duplicate of key present in " + std::string(twin)));
    }
    const std::string_view text = member.value.as_string();
    bytes += base64 ? decoded_size(text) : text.size();
  }
  return bytes;
}

void check_immutable(const Json& object, const Json* old,
                     std::initializer_list<std::string_view> fields, std::vector<Cause>& causes) {
  if (old == nullptr || !old->find("immutable") || !old->find("immutable")->as_bool()) {
    return;
  }
  const Json* now = object.find("immutable");
  if (now == nullptr || !now->as_bool()) {
    causes.push_back(krm::field_forbidden("immutable", kImmutable));
  }
  for (std::string_view field : fields) {
    if (!same_member(object, *old, field)) {
      causes.push_back(krm::field_forbidden(std::string(field), kImmutable));
    }
  }
}

apiserver::Column data_column(std::string_view description) {
  apiserver::Column out;
  out.name = "Data";
  out.description = description;
  return out;
}

apiserver::ResourcePtr config_map_kind() {
  apiserver::ResourceDef def = make_kind("", "v1", "ConfigMap", "configmaps");
  def.short_names = {"cm"};
  apiserver::Column data = data_column(
      "Data contains the configuration data. Each key must consist of alphanumeric characters, "
      "'-', '_' or '.'. Values with non-UTF-8 byte sequences must use the BinaryData field. The "
      "keys stored in Data must not overlap with the keys in the BinaryData field, this is "
      "enforced during validation process.");
  data.cell = [](const Json& object) {
    return Json(member_count(object, "data") + member_count(object, "binaryData"));
  };
  def.versions[0].columns = {std::move(data), age_column()};
  def.hooks.validate = [](const apiserver::WriteContext&, const Json& object, const Json* old,
                          std::vector<Cause>& causes) {
    check_immutable(object, old, {"data", "binaryData"}, causes);
    std::size_t bytes = check_data(object, "data", false, "binaryData", causes);
    bytes += check_data(object, "binaryData", true, {}, causes);
    if (bytes > kMaxDataBytes) {
      causes.push_back(krm::field_too_long("[]", kMaxDataBytes));
    }
  };
  return std::make_shared<const apiserver::ResourceDef>(std::move(def));
}

void require_json(const Json& object, std::string_view key, std::vector<Cause>& causes) {
  const Json* value = object.at({"data", key});
  const std::string field = key_path("data", key);
  if (value == nullptr) {
    causes.push_back(krm::field_required(field));
    return;
  }
  const auto parsed = Json::parse(base64_decode(value->as_string()).value_or(std::string()));
  const Json redacted("<secret contents redacted>");
  if (!parsed) {
    causes.push_back(krm::field_invalid(field, redacted, parsed.error().message()));
  } else if (!parsed->is_object() && !parsed->is_null()) {
    causes.push_back(krm::field_invalid(field, redacted,
                                        "json: cannot unmarshal " +
                                            std::string(parsed->type_name()) +
                                            " into Go value of type map[string]interface {}"));
  }
}

void check_secret_type(const Json& object, std::vector<Cause>& causes) {
  const std::string_view type = object.text({"type"});
  const auto has = [&](std::string_view key) { return object.at({"data", key}) != nullptr; };
  const auto require = [&](std::string_view key) {
    causes.push_back(krm::field_required(key_path("data", key)));
  };
  if (type == "kubernetes.io/service-account-token") {
    if (object.text({"metadata", "annotations", krm::kServiceAccountNameAnnotation}).empty()) {
      causes.push_back(krm::field_required(
          key_path("metadata.annotations", krm::kServiceAccountNameAnnotation)));
    }
  } else if (type == "kubernetes.io/dockercfg") {
    require_json(object, ".dockercfg", causes);
  } else if (type == "kubernetes.io/dockerconfigjson") {
    require_json(object, ".dockerconfigjson", causes);
  } else if (type == "kubernetes.io/basic-auth") {
    if (!has("username") && !has("password")) {
      require("username");
      require("password");
    }
  } else if (type == "kubernetes.io/ssh-auth") {
    if (object.text({"data", "ssh-privatekey"}).empty()) {
      require("ssh-privatekey");
    }
  } else if (type == "kubernetes.io/tls") {
    for (std::string_view key : {"tls.crt", "tls.key"}) {
      if (!has(key)) {
        require(key);
      }
    }
  }
}

void warn_of_key_pair(const Json& object, std::vector<std::string>& warnings) {
  const auto bytes = [&](std::string_view key) {
    return base64_decode(object.text({"data", key})).value_or(std::string());
  };
  if (std::string fault = auth::key_pair_fault(bytes("tls.crt"), bytes("tls.key"));
      !fault.empty()) {
    warnings.push_back(std::move(fault));
  }
}

apiserver::ResourcePtr secret_kind() {
  apiserver::ResourceDef def = make_kind("", "v1", "Secret", "secrets");
  def.field_labels = {{"type", ".type"}};
  apiserver::Column type;
  type.name = "Type";
  type.description =
      "Used to facilitate programmatic handling of secret data. More info: "
      "https://kubernetes.io/docs/concepts/configuration/secret/#secret-types";
  type.json_path = ".type";
  apiserver::Column data = data_column(
      "Data contains the secret data. Each key must consist of alphanumeric characters, '-', '_' "
      "or '.'. The serialized form of the secret data is a base64 encoded string, representing "
      "the arbitrary (possibly non-string) data value here. Described in "
      "https://tools.ietf.org/html/rfc4648#section-4");
  data.cell = [](const Json& object) { return Json(member_count(object, "data")); };
  def.versions[0].columns = {std::move(type), std::move(data), age_column()};
  set_defaults_and_prepare(
      def.hooks,
      [](Json& object) {
        if (const Json* texts = object.find("stringData"); texts != nullptr && texts->size() != 0) {
          const Json copy = *texts;
          Json& data_member = object["data"];
          for (const krm::JsonMember& member : copy.members()) {
            data_member[member.key] = Json(base64_encode(member.value.as_string()));
          }
        }
        object.erase("stringData");
        if (object.text({"type"}).empty()) {
          object["type"] = Json("Opaque");
        }
      },
      nullptr);
  def.hooks.validate = [](const apiserver::WriteContext& context, const Json& object,
                          const Json* old, std::vector<Cause>& causes) {
    if (old != nullptr && object.text({"type"}) != old->text({"type"})) {
      causes.push_back(
          krm::field_invalid("type", Json(object.text({"type"})), "field is immutable"));
    }
    check_immutable(object, old, {"data"}, causes);
    if (check_data(object, "data", true, {}, causes) > kMaxDataBytes) {
      causes.push_back(krm::field_too_long("data", kMaxDataBytes));
    }
    check_secret_type(object, causes);
    if (causes.empty() && object.text({"type"}) == "kubernetes.io/tls") {
      warn_of_key_pair(object, context.warnings);
    }
  };
  return std::make_shared<const apiserver::ResourceDef>(std::move(def));
}

apiserver::ResourcePtr service_account_kind() {
  apiserver::ResourceDef def = make_kind("", "v1", "ServiceAccount", "serviceaccounts");
  def.short_names = {"sa"};
  def.delete_answers_object = true;
  def.versions[0].columns = {age_column()};
  def.hooks.prepare = [](const apiserver::WriteContext&, Json& object, const Json*) {
    Json* secrets = object.find("secrets");
    if (secrets == nullptr) {
      return;
    }
    for (Json& secret : secrets->edit_items()) {  // names in the account's own namespace
      const Json* name = secret.find("name");
      secret = name == nullptr ? Json::object() : Json::object({{"name", *name}});
    }
  };
  return std::make_shared<const apiserver::ResourceDef>(std::move(def));
}

}  // namespace

std::vector<apiserver::ResourcePtr> core_kinds() {
  return {config_map_kind(),     core_event_kind(), namespace_kind(),
          resource_quota_kind(), secret_kind(),     service_account_kind()};
}

}  // namespace kintsugi::kinds
