#include "cel/internal/type.h"

#include <array>
#include <utility>

namespace kintsugi::cel {

namespace {

constexpr std::string_view kOptional = "optional_type";

constexpr std::array<std::string_view, 17> kNames = {
    "!error!",  "dyn",       "null_type", "bool", "int", "uint", "double", "string", "bytes",
    "duration", "timestamp", "list",      "map",  "",    "",     "type",   ""};

TypePtr make(TypeKind kind, std::string name, std::vector<TypePtr> params = {}) {
  auto type = std::make_shared<Type>();
  type->kind = kind;
  type->name = std::move(name);
  type->params = std::move(params);
  return type;
}

bool equal_or_less_specific(const Type& a, const Type& b) {
  if (is_dyn(a) || a.kind == TypeKind::kParam) {
    return true;
  }
  if (is_dyn(b) || b.kind == TypeKind::kParam || a.kind != b.kind) {
    return false;
  }
  switch (a.kind) {
    case TypeKind::kOpaque:
    case TypeKind::kList:
    case TypeKind::kMap:
      if (a.name != b.name || a.params.size() != b.params.size()) {
        return false;
      }
      for (std::size_t i = 0; i < a.params.size(); ++i) {
        if (!equal_or_less_specific(*a.params[i], *b.params[i])) {
          return false;
        }
      }
      return true;
    case TypeKind::kType:
      return true;
    default:
      return same_type(a, b);
  }
}

bool takes_null(const Type& type) {
  return type.kind == TypeKind::kNull || type.kind == TypeKind::kOpaque ||
         type.kind == TypeKind::kStruct || type.kind == TypeKind::kDuration ||
         type.kind == TypeKind::kTimestamp;
}

}  // namespace

const TypePtr& simple_type(TypeKind kind) {
  static const auto& all = *new std::vector<TypePtr>([] {
    std::vector<TypePtr> out;
    for (std::size_t i = 0; i < kNames.size(); ++i) {
      out.push_back(make(static_cast<TypeKind>(i), std::string(kNames[i])));
    }
    return out;
  }());
  return all[static_cast<std::size_t>(kind)];
}

TypePtr list_type(TypePtr element) { return make(TypeKind::kList, "list", {std::move(element)}); }
TypePtr map_type(TypePtr key, TypePtr value) {
  return make(TypeKind::kMap, "map", {std::move(key), std::move(value)});
}
TypePtr optional_type(TypePtr value) {
  return make(TypeKind::kOpaque, std::string(kOptional), {std::move(value)});
}
TypePtr type_type(TypePtr of) { return make(TypeKind::kType, "type", {std::move(of)}); }
TypePtr param_type(std::string name) { return make(TypeKind::kParam, std::move(name)); }
TypePtr struct_type(std::string name, const Declaration* declaration) {
  auto type = std::make_shared<Type>();
  type->kind = TypeKind::kStruct;
  type->name = std::move(name);
  type->declaration = declaration;
  return type;
}

bool is_dyn(const Type& type) noexcept { return type.kind == TypeKind::kDyn; }
bool is_optional(const Type& type) noexcept {
  return type.kind == TypeKind::kOpaque && type.name == kOptional;
}

bool same_type(const Type& a, const Type& b) noexcept {
  if (&a == &b) {
    return true;
  }
  if (a.kind != b.kind || a.name != b.name || a.params.size() != b.params.size() ||
      a.declaration != b.declaration) {
    return false;
  }
  for (std::size_t i = 0; i < a.params.size(); ++i) {
    if (!same_type(*a.params[i], *b.params[i])) {
      return false;
    }
  }
  return true;
}

std::string_view type_name(const Type& type) noexcept {
  return type.kind == TypeKind::kDuration    ? "google.protobuf.Duration"
         : type.kind == TypeKind::kTimestamp ? "google.protobuf.Timestamp"
                                             : std::string_view(type.name);
}

std::string format_type(const Type& type) {
  if (type.kind == TypeKind::kNull) {
    return "null";
  }
  std::string out = type.name;
  if (!type.params.empty()) {
    out += '(';
    for (std::size_t i = 0; i < type.params.size(); ++i) {
      out += (i == 0 ? "" : ", ") + format_type(*type.params[i]);
    }
    out += ')';
  }
  return out;
}

std::string format_arguments(const std::vector<TypePtr>& arguments, bool instance) {
  std::string out;
  std::size_t first = 0;
  if (instance && !arguments.empty()) {
    out = format_type(*arguments[0]) + '.';
    first = 1;
  }
  out += '(';
  for (std::size_t i = first; i < arguments.size(); ++i) {
    out += (i == first ? "" : ", ") + format_type(*arguments[i]);
  }
  return out + ')';
}

const TypePtr& more_general(const TypePtr& a, const TypePtr& b) {
  return equal_or_less_specific(*a, *b) ? a : b;
}

bool Substitutions::keep(bool good) {
  for (; !good && !undo_.empty(); undo_.pop_back()) {
    auto& [name, type] = undo_.back();
    if (type == nullptr) {
      bound_.erase(name);
    } else {
      bound_[name] = std::move(type);
    }
  }
  undo_.clear();
  return good;
}

void Substitutions::set(const std::string& name, TypePtr type) {
  TypePtr& place = bound_[name];
  undo_.emplace_back(name, std::move(place));
  place = std::move(type);
}

bool Substitutions::assignable(const TypePtr& from, const TypePtr& to) {
  return keep(unify(from, to));
}

bool Substitutions::assignable(const std::vector<TypePtr>& from, const std::vector<TypePtr>& to) {
  return keep(unify(from, to));
}

bool Substitutions::unify(const std::vector<TypePtr>& from, const std::vector<TypePtr>& to) {
  if (from.size() != to.size()) {
    return false;
  }
  for (std::size_t i = 0; i < from.size(); ++i) {
    if (!unify(from[i], to[i])) {
      return false;
    }
  }
  return true;
}

bool Substitutions::unify(const TypePtr& from, const TypePtr& to) {
  if (to->kind == TypeKind::kParam) {
    bool bound = false;
    if (substitute(from, to, bound)) {
      return true;
    }
    if (bound) {
      return false;
    }
  }
  if (from->kind == TypeKind::kParam) {
    bool bound = false;
    return substitute(to, from, bound);
  }
  const auto any = [](const Type& type) {
    return type.kind == TypeKind::kDyn || type.kind == TypeKind::kError;
  };
  if (any(*from) || any(*to)) {
    return true;
  }
  if (from->kind == TypeKind::kNull) {
    return takes_null(*to);
  }
  if (to->kind == TypeKind::kNull) {
    return takes_null(*from);
  }
  switch (from->kind) {
    case TypeKind::kType:
      return to->kind == TypeKind::kType;
    case TypeKind::kOpaque:
    case TypeKind::kList:
    case TypeKind::kMap:
      return from->kind == to->kind && from->name == to->name && unify(from->params, to->params);
    default:
      return same_type(*from, *to);
  }
}

/// True when `type` can stand for `variable`; `bound` tells whether the variable had a value.
bool Substitutions::substitute(const TypePtr& type, const TypePtr& variable, bool& bound) {
  bound = false;
  if (same_type(*type, *variable)) {
    bound = true;
    return true;
  }
  if (const auto found = bound_.find(variable->name); found != bound_.end()) {
    bound = true;
    const TypePtr now = found->second;
    if (same_type(*type, *now)) {
      return true;
    }
    if (!unify(type, now)) {
      return false;
    }
    const TypePtr wider = more_general(type, now);
    if (free_of(variable, wider)) {
      set(variable->name, wider);
    }
    return true;
  }
  if (free_of(variable, type)) {
    set(variable->name, type);
    return true;
  }
  return false;
}

bool Substitutions::free_of(const TypePtr& variable, const TypePtr& within) const {
  if (same_type(*variable, *within)) {
    return false;
  }
  if (within->kind == TypeKind::kParam) {
    const auto found = bound_.find(within->name);
    return found == bound_.end() || free_of(variable, found->second);
  }
  for (const TypePtr& each : within->params) {
    if (!free_of(variable, each)) {
      return false;
    }
  }
  return true;
}

TypePtr Substitutions::apply(const TypePtr& type, bool free_to_dyn) const {
  if (type->kind == TypeKind::kParam) {
    if (const auto found = bound_.find(type->name); found != bound_.end()) {
      return apply(found->second, free_to_dyn);
    }
    return free_to_dyn ? simple_type(TypeKind::kDyn) : type;
  }
  if (type->params.empty()) {
    return type;
  }
  auto copy = std::make_shared<Type>(*type);
  for (TypePtr& each : copy->params) {
    each = apply(each, free_to_dyn);
  }
  return copy;
}

}  // namespace kintsugi::cel
