// EncryptionConfiguration: what stands in it, judged with Kubernetes' texts
// (k8s.io/apiserver/pkg/apis/apiserver/validation).
#include <algorithm>
#include <initializer_list>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/strings.h"
#include "krm/json.h"
#include "krm/yaml.h"
#include "store/encryption/value_codec.h"

namespace kintsugi::store {
namespace {

constexpr std::string_view kOverlap =
    "using overlapping resources such as 'secrets' and '*.' in the same resource list is not "
    "allowed "
    "as they will be masked";
constexpr std::size_t kMaxPerList = 256;

std::string item_of(const std::string& list, std::size_t index) {
  return list + "[" + std::to_string(index) + "]";
}

std::string quoted_text(std::string_view text) { return krm::Json(text).dump(); }

}  // namespace

/// Collects faults; the codec counts only if there are none.
class EncryptionParser {
 public:
  Expected<std::shared_ptr<const ValueCodec>> parse(std::string_view text) {
    krm::YamlReport report;
    auto document = krm::parse_yaml(text, &report);
    if (!document) {
      return fail(Errc::kConfig, std::string(document.error().message()));
    }
    if (document->text({"kind"}) != "EncryptionConfiguration" ||
        document->text({"apiVersion"}) != "apiserver.config.k8s.io/v1") {
      return fail(Errc::kConfig,
                  "no EncryptionConfiguration of apiserver.config.k8s.io/v1 (apiVersion, kind)");
    }
    if (!report.duplicate_keys.empty()) {
      return fail(Errc::kConfig, "strict decoding error: " + report.duplicate_keys.front());
    }
    check_members(*document, "", {"apiVersion", "kind", "resources"});
    read_rules(document->find("resources"));
    if (!faults_.empty()) {
      return fail(Errc::kConfig,
                  faults_.size() == 1 ? faults_.front() : "[" + join(faults_, ", ") + "]");
    }
    return std::shared_ptr<const ValueCodec>(std::move(codec_));
  }

 private:
  void fault(const std::string& field, const std::string& what) {
    constexpr std::size_t kMostFaults = 20;
    if (faults_.size() < kMostFaults) {
      faults_.push_back(field + ": " + what);
    }
  }
  void invalid(const std::string& field, std::string_view value, std::string_view why) {
    fault(field, "Invalid value: " + quoted_text(value) + ": " + std::string(why));
  }

  void check_members(const krm::Json& object, const std::string& path,
                     std::initializer_list<std::string_view> known) {
    for (const auto& [name, value] : object.members()) {
      if (std::find(known.begin(), known.end(), std::string_view(name)) == known.end()) {
        std::string field = path.empty() ? std::string(name) : path + "." + std::string(name);
        fault(field, "strict decoding error: unknown field \"" + field + "\"");
      }
    }
  }

  /// The elements of a list that must have some; null and a fault otherwise.
  const krm::Json::Array* elements(const krm::Json* list, const std::string& path) {
    if (list == nullptr || list->is_null() || (list->is_array() && list->items().empty())) {
      fault(path, "Required value: at least one " + path + " is required");
      return nullptr;
    }
    if (!list->is_array()) {
      fault(path, "must be a list, not " + std::string(list->type_name()));
      return nullptr;
    }
    if (list->items().size() > kMaxPerList) {
      fault(path, "Too many: must have at most " + std::to_string(kMaxPerList) + " items");
      return nullptr;
    }
    return &list->items();
  }

  void read_rules(const krm::Json* list) {
    const auto* items = elements(list, "resources");
    for (std::size_t i = 0; items != nullptr && i < items->size(); ++i) {
      const std::string path = item_of("resources", i);
      const krm::Json& item = (*items)[i];
      if (!item.is_object()) {
        fault(path, "must be an object, not " + std::string(item.type_name()));
        continue;
      }
      check_members(item, path, {"resources", "providers"});
      ValueCodec::Rule rule;
      read_resources(item.find("resources"), path + ".resources", rule);
      read_providers(item.find("providers"), path + ".providers", rule);
      codec_->rules_.push_back(std::move(rule));
    }
  }

  void read_resources(const krm::Json* list, const std::string& path, ValueCodec::Rule& rule) {
    const auto* items = elements(list, path);
    for (std::size_t i = 0; items != nullptr && i < items->size(); ++i) {
      const std::string at = item_of(path, i);
      if (!(*items)[i].is_string()) {
        fault(at, "must be a string, not " + std::string((*items)[i].type_name()));
        continue;
      }
      std::string name((*items)[i].as_string());
      if (const std::string_view why = refused_resource(name); !why.empty()) {
        invalid(at, name, why);
      } else if (std::find(rule.resources.begin(), rule.resources.end(), name) !=
                 rule.resources.end()) {
        invalid(at, name, "the same resource cannot be specified multiple times");
      }
      rule.resources.push_back(std::move(name));
    }
    if (overlaps(rule.resources)) {
      fault(path, "Invalid value: " + quoted_text(join(rule.resources, ",")) + ": " +
                      std::string(kOverlap));
    }
    rule.about = join(rule.resources, ", ");
  }

  static std::string_view refused_resource(std::string_view name) {
    if (name.empty() || name.find_first_of("/: \t\n") != std::string_view::npos) {
      return "is not <resource> or <resource>.<group>";
    }
    if (std::any_of(name.begin(), name.end(), [](char c) { return c >= 'A' && c <= 'Z'; })) {
      return "resource name should not contain capital letters";
    }
    if (name == "*") {
      return "use '*.' to encrypt all the resources from core API group or *.* to encrypt all "
             "resources";
    }
    if (name.ends_with(".extensions")) {
      return "'extensions' group has been removed and cannot be used for encryption";
    }
    if (name.substr(1).find('*') != std::string_view::npos && name != "*.*") {
      return "encrypting the same resource across groups is not supported";
    }
    if (name.front() == '*' && !name.starts_with("*.")) {
      return "is not <resource> or <resource>.<group>";
    }
    return {};
  }

  /// Whether one list names something by itself and by a wildcard.
  static bool overlaps(const std::vector<std::string>& resources) {
    std::set<std::string> groups, wild;
    bool all = false;
    for (const std::string& name : resources) {
      const std::size_t dot = name.find('.');
      const std::string group = dot == std::string::npos ? "" : name.substr(dot + 1);
      if (name == "*.*") {
        all = true;
      } else {
        (name.starts_with("*.") ? wild : groups).insert(group);
      }
    }
    return (all && resources.size() > 1) ||
           std::any_of(wild.begin(), wild.end(),
                       [&](const std::string& group) { return groups.count(group) != 0; });
  }

  void read_providers(const krm::Json* list, const std::string& path, ValueCodec::Rule& rule) {
    const auto* items = elements(list, path);
    std::vector<std::string> about;
    for (std::size_t i = 0; items != nullptr && i < items->size(); ++i) {
      const std::string at = item_of(path, i);
      const krm::Json& item = (*items)[i];
      if (!item.is_object()) {
        fault(at, "must be an object, not " + std::string(item.type_name()));
        continue;
      }
      check_members(item, at, {"aesgcm", "aescbc", "secretbox", "identity", "kms"});
      if (item.size() > 1) {
        fault(at,
              "Invalid value: more than one provider specified in a single element, should "
              "split into different list elements");
        continue;
      }
      if (item.size() == 0) {
        fault(at, "Required value: at least one provider is required");
        continue;
      }
      about.push_back(read_provider(item, at, rule));
    }
    rule.about += ": " + join(about, ", ");
  }

  std::string read_provider(const krm::Json& item, const std::string& at, ValueCodec::Rule& rule) {
    for (const char* name : {"aescbc", "secretbox", "kms"}) {
      if (item.find(name) != nullptr) {
        fault(at + "." + name, std::string("Unsupported value: the provider ") + name +
                                   " is not supported, supported are aesgcm and identity");
        return name;
      }
    }
    if (const krm::Json* identity = item.find("identity")) {
      if (!identity->is_null()) {
        check_members(*identity, at + ".identity", {});
      }
      rule.readers.push_back({});
      return "identity";
    }
    const krm::Json* aesgcm = item.find("aesgcm");
    if (aesgcm == nullptr) {
      return "";  // unknown, which has been said
    }
    return read_keys(*aesgcm, at + ".aesgcm", rule);
  }

  std::string read_keys(const krm::Json& provider, const std::string& at, ValueCodec::Rule& rule) {
    check_members(provider, at, {"keys"});
    const std::string path = at + ".keys";
    const auto* items = elements(provider.find("keys"), path);
    std::vector<std::string> names;
    for (std::size_t i = 0; items != nullptr && i < items->size(); ++i) {
      const std::string field = item_of(path, i);
      check_members((*items)[i], field, {"name", "secret"});
      if (auto key = read_key((*items)[i], field)) {
        names.push_back(key->name);
        rule.readers.push_back({std::move(key)});
      }
    }
    return "aesgcm (" + join(names, ", ") + ")";
  }

  std::shared_ptr<const ValueCodec::Key> read_key(const krm::Json& item, const std::string& field) {
    const std::string_view name = item.text({"name"});
    const std::string_view secret = item.text({"secret"});
    if (name.empty()) {
      fault(field + ".name", "Required value: name is a mandatory field for a key");
    } else if (name.size() > 253 || std::any_of(name.begin(), name.end(), [](char c) {
                 return c <= ' ' || c >= 0x7f || c == ':' || c == '"';
               })) {
      invalid(field + ".name", name.substr(0, 253),
              "must be up to 253 printable characters but ':'");
    }
    if (secret.empty()) {
      fault(field + ".secret", "Required value: secret is a mandatory field for a key");
      return nullptr;
    }
    auto bytes = base64_decode(secret);
    if (!bytes) {
      fault(field + ".secret", "Invalid value: \"REDACTED\": secrets must be base64 encoded");
      return nullptr;
    }
    Secret taken(std::move(*bytes));
    if (!is_aes_key_size(taken.size())) {
      fault(field + ".secret",
            "Invalid value: \"REDACTED\": secret is not of the expected length, got " +
                std::to_string(taken.size()) + ", expected one of [16 24 32]");
      return nullptr;
    }
    auto key = std::make_shared<ValueCodec::Key>();
    key->name = name;
    key->mark = "k8s:enc:aesgcm:v1:" + key->name + ":";
    key->secret = std::move(taken);
    return key;
  }

  std::vector<std::string> faults_;
  std::shared_ptr<ValueCodec> codec_ = std::make_shared<ValueCodec>();
};

Expected<std::shared_ptr<const ValueCodec>> ValueCodec::parse(std::string_view document) {
  return EncryptionParser().parse(document);
}

}  // namespace kintsugi::store
