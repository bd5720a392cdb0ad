#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace kintsugi::cel {

struct Declaration;
struct Type;
using TypePtr = std::shared_ptr<const Type>;

enum class TypeKind : std::uint8_t {
  kError,
  kDyn,
  kNull,
  kBool,
  kInt,
  kUint,
  kDouble,
  kString,
  kBytes,
  kDuration,
  kTimestamp,
  kList,    ///< params: element
  kMap,     ///< params: key, value
  kStruct,  ///< by name; fields in `declaration`, or none (kubernetes.URL)
  kOpaque,  ///< by name and params (optional_type, net.IP)
  kType,    ///< the type of a type
  kParam,   ///< a type variable, by name
};

/// A static type. Immutable, shared. Threads: any.
struct Type {
  TypeKind kind = TypeKind::kError;
  std::string name;
  std::vector<TypePtr> params;
  const Declaration* declaration = nullptr;  ///< kStruct: lives as long as the schema's types
};

[[nodiscard]] const TypePtr& simple_type(TypeKind kind);
[[nodiscard]] TypePtr list_type(TypePtr element);
[[nodiscard]] TypePtr map_type(TypePtr key, TypePtr value);
[[nodiscard]] TypePtr optional_type(TypePtr value);
[[nodiscard]] TypePtr type_type(TypePtr of);
[[nodiscard]] TypePtr param_type(std::string name);
[[nodiscard]] TypePtr struct_type(std::string name, const Declaration* declaration);

[[nodiscard]] bool is_dyn(const Type& type) noexcept;
[[nodiscard]] bool is_optional(const Type& type) noexcept;
[[nodiscard]] bool same_type(const Type& a, const Type& b) noexcept;
/// The name that a value of the type has at run time ("google.protobuf.Duration").
[[nodiscard]] std::string_view type_name(const Type& type) noexcept;
/// As compile errors print it: "list(int)", "map(string, dyn)".
[[nodiscard]] std::string format_type(const Type& type);
/// "(int, string)", with an instance "int.(string)".
[[nodiscard]] std::string format_arguments(const std::vector<TypePtr>& arguments, bool instance);

/// What type variables stand for while an expression is checked.
class Substitutions {
 public:
  /// True when `from` can be used where `to` is wanted; binds variables only then.
  bool assignable(const TypePtr& from, const TypePtr& to);
  bool assignable(const std::vector<TypePtr>& from, const std::vector<TypePtr>& to);
  /// Replaces bound variables; with `free_to_dyn` the others become dyn.
  [[nodiscard]] TypePtr apply(const TypePtr& type, bool free_to_dyn) const;
  void bind(const std::string& name, TypePtr type) { bound_[name] = std::move(type); }

 private:
  bool unify(const TypePtr& from, const TypePtr& to);
  bool unify(const std::vector<TypePtr>& from, const std::vector<TypePtr>& to);
  bool substitute(const TypePtr& type, const TypePtr& variable, bool& bound);
  [[nodiscard]] bool free_of(const TypePtr& variable, const TypePtr& within) const;
  void set(const std::string& name, TypePtr type);
  /// Takes back what was bound since; true when `good` and nothing is taken back.
  bool keep(bool good);

  std::map<std::string, TypePtr, std::less<>> bound_;
  std::vector<std::pair<std::string, TypePtr>> undo_;  ///< null: was not bound
};

/// The more general of two types that unify.
[[nodiscard]] const TypePtr& more_general(const TypePtr& a, const TypePtr& b);

}  // namespace kintsugi::cel
