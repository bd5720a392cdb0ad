#include <algorithm>
#include <memory>
#include <unordered_map>

#include "cel/definition.h"
#include "cel/internal/rule_set.h"

namespace kintsugi::cel {

namespace {

using krm::Json;

class DefaultCheck {
 public:
  explicit DefaultCheck(const Json& schema) : schema_(schema) {}

  bool check(const Json& part, const Json& value, const std::string& path,
             std::vector<Cause>& causes) {
    if (!compiled_) {
      compiled_ = true;
      rules_ = compile_rules(schema_);
      if (rules_ != nullptr) {
        place(schema_, *rules_->root);
      }
    }
    const auto found = nodes_.find(&part);
    if (found == nodes_.end()) {
      return true;
    }
    const std::size_t before = causes.size();
    std::uint64_t updated = budget_;
    bool affordable = validate_node(*found->second, path, value, &value, updated, causes);
    std::uint64_t created = budget_;
    if (affordable && causes.size() == before) {
      affordable = validate_node(*found->second, path, value, nullptr, created, causes);
    }
    budget_ = std::min(updated, created);
    return affordable;
  }

 private:
  void place(const Json& json, const RuleNode& node) {
    nodes_[&json] = &node;
    if (const Json* items = json.find("items"); items != nullptr && node.items) {
      place(*items, *node.items);
    }
    if (const Json* properties = json.find("properties")) {
      for (const krm::JsonMember& member : properties->members()) {
        const auto found = node.properties.find(member.key);
        if (found != node.properties.end()) {
          place(member.value, *found->second);
        }
      }
    }
  }

  const Json& schema_;
  bool compiled_ = false;
  RuleSetPtr rules_;
  std::unordered_map<const Json*, const RuleNode*> nodes_;
  std::uint64_t budget_ = kObjectLimit;
};

}  // namespace

krm::DefaultRules default_rules(const krm::Json& schema) {
  return [check = std::make_shared<DefaultCheck>(schema)](
             const Json& part, const Json& value, const std::string& path,
             std::vector<Cause>& causes) { return check->check(part, value, path, causes); };
}

}  // namespace kintsugi::cel
