#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cel/internal/program.h"
#include "cel/internal/schema_type.h"
#include "cel/rules.h"
#include "krm/schema.h"

namespace kintsugi::cel {

struct CompiledRule {
  const krm::Schema::Rule* rule = nullptr;  ///< of RuleSet::schema
  std::optional<Program> program;           ///< none: empty or broken
  std::optional<Program> message;
  std::string error;       ///< why it does not compile
  std::string field_path;  ///< as errors print it
};

/// The rules at one place of a schema and below.
struct RuleNode {
  const krm::Schema* schema = nullptr;
  std::string type;  ///< "object", "string", …; "" for int-or-string
  std::vector<CompiledRule> rules;
  std::map<std::string, std::unique_ptr<RuleNode>, std::less<>> properties;
  std::unique_ptr<RuleNode> items, additional;
  std::vector<std::unique_ptr<RuleNode>> all_of;
};

class RuleSet {
 public:
  krm::SchemaPtr schema;
  DeclarationPtr declaration;
  std::vector<DeclarationPtr> more;  ///< of properties with names that expressions cannot say
  std::unique_ptr<RuleNode> root;
};

/// Evaluates the rules of a node and below. What was wrong before is refused all the same.
/// @param path    of the value.
/// @param budget  what they may cost; less what they did.
/// @returns false when that was too much.
bool validate_node(const RuleNode& node, const std::string& path, const krm::Json& value,
                   const krm::Json* old, std::uint64_t& budget, std::vector<Cause>& causes);

}  // namespace kintsugi::cel
