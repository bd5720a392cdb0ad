#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "krm/json.h"

/// x-kubernetes-validations (AM-406 to AM-424).
namespace kintsugi::cel {

/// Cost that one evaluation and one object may take [cost units]: roughly 0.1 s and 1 s.
inline constexpr std::uint64_t kCallLimit = 1'000'000;
inline constexpr std::uint64_t kObjectLimit = 10'000'000;
/// What a loop may spend on the rules of an object before a thread does it: about 1 ms (SE-102).
inline constexpr std::uint64_t kLoopLimit = 10'000;

/// The compiled rules of one schema. Immutable, made once, shared by all loops. Threads: any.
class RuleSet;
using RuleSetPtr = std::shared_ptr<const RuleSet>;

/// Compiles the rules of an openAPIV3Schema whose root is a resource. Null when it has none. Rules
/// that do not compile are kept and fail every object: a definition is refused before
/// (definition.h).
[[nodiscard]] RuleSetPtr compile_rules(const krm::Json& schema);

/// Evaluates the rules on an object that fits its schema (krm::blocks_rules() is false).
/// @param old       the stored object on update: transition rules see it, and what is unchanged
///                  and was wrong before is accepted (AM-395).
/// @param causes    receives the causes of a 422.
/// @param warnings  receives what was accepted that way; may be null.
/// Cost: bounded by kObjectLimit.
void validate_rules(const RuleSet& rules, const krm::Json& object, const krm::Json* old,
                    std::vector<Cause>& causes, std::vector<std::string>* warnings = nullptr);
/// The same if kLoopLimit is enough. False: it is not, and nothing was received.
[[nodiscard]] bool try_rules(const RuleSet& rules, const krm::Json& object, const krm::Json* old,
                             std::vector<Cause>& causes, std::vector<std::string>& warnings);

}  // namespace kintsugi::cel
