#include "cel/internal/functions.h"

#include <algorithm>
#include <array>
#include <unordered_map>

#include "base/strings.h"
#include "cel/internal/call_cost.h"

namespace kintsugi::cel {

namespace {

/// Reads the signatures of the tables. They are constants: a fault is a fault of the program.
class SignatureReader {
 public:
  explicit SignatureReader(std::string_view text) : text_(text) {}

  Overload read(const OverloadRow& row) {
    Overload out;
    out.function = row.function;
    out.id = row.id;
    out.call = row.call;
    out.cost = cost_function(row.function, row.id);
    out.any_cost = cost_function(row.function, {});
    out.work = work_function(row.function);
    if (text_[0] != '(') {
      out.member = true;
      out.params.push_back(type());
      ++at_;  // the dot
    }
    ++at_;  // (
    while (text_[at_] != ')') {
      out.params.push_back(type());
      skip(", ");
    }
    at_ += std::string_view(") -> ").size();
    out.result = type();
    out.type_params = std::move(variables_);
    return out;
  }

 private:
  void skip(std::string_view word) {
    if (text_.substr(at_, word.size()) == word) {
      at_ += word.size();
    }
  }

  TypePtr type() {
    const std::size_t begin = at_;
    while (at_ < text_.size() && std::string_view("(),. ").find(text_[at_]) == text_.npos) {
      ++at_;
    }
    const std::string_view word = text_.substr(begin, at_ - begin);
    if (word.size() == 1) {
      if (std::find(variables_.begin(), variables_.end(), word) == variables_.end()) {
        variables_.emplace_back(word);
      }
      return param_type(std::string(word));
    }
    std::vector<TypePtr> params;
    if (word == "list" || word == "map" || word == "optional" || word == "type") {
      ++at_;  // (
      while (text_[at_] != ')') {
        params.push_back(type());
        skip(", ");
      }
      ++at_;
    }
    if (word == "list") {
      return list_type(params[0]);
    }
    if (word == "map") {
      return map_type(params[0], params[1]);
    }
    if (word == "optional") {
      return optional_type(params[0]);
    }
    if (word == "type") {
      return type_type(params[0]);
    }
    return find_type_name(word);
  }

  std::string_view text_;
  std::size_t at_ = 0;
  std::vector<std::string> variables_;
};

TypePtr library_type(TypeKind kind, std::string_view name) {
  auto out = std::make_shared<Type>();
  out->kind = kind;
  out->name = name;
  return out;
}

const StringMap<TypePtr>& type_names() {
  static const auto& names = *new StringMap<TypePtr>([] {
    StringMap<TypePtr> out;
    const auto dyn = simple_type(TypeKind::kDyn);
    out["dyn"] = dyn;
    out["null_type"] = simple_type(TypeKind::kNull);
    out["bool"] = simple_type(TypeKind::kBool);
    out["int"] = simple_type(TypeKind::kInt);
    out["uint"] = simple_type(TypeKind::kUint);
    out["double"] = simple_type(TypeKind::kDouble);
    out["string"] = simple_type(TypeKind::kString);
    out["bytes"] = simple_type(TypeKind::kBytes);
    out["duration"] = out["google.protobuf.Duration"] = simple_type(TypeKind::kDuration);
    out["timestamp"] = out["google.protobuf.Timestamp"] = simple_type(TypeKind::kTimestamp);
    out["list"] = list_type(dyn);
    out["map"] = map_type(dyn, dyn);
    out["type"] = simple_type(TypeKind::kType);
    out["optional_type"] = optional_type(dyn);
    out["quantity"] = out["kubernetes.Quantity"] =
        library_type(TypeKind::kStruct, "kubernetes.Quantity");
    out["url"] = out["kubernetes.URL"] = library_type(TypeKind::kStruct, "kubernetes.URL");
    out["named_format"] = out["kubernetes.NamedFormat"] =
        library_type(TypeKind::kStruct, "kubernetes.NamedFormat");
    out["ip"] = out["net.IP"] = library_type(TypeKind::kOpaque, "net.IP");
    out["cidr"] = out["net.CIDR"] = library_type(TypeKind::kOpaque, "net.CIDR");
    // '#' keeps the short names of signatures out of expressions.
    out["#semver"] = library_type(TypeKind::kStruct, "kubernetes.Semver");
    for (const auto& [short_name, name] :
         {std::pair<const char*, std::string_view>{"#authorizer", kAuthorizerType},
          {"#path", kPathCheckType},
          {"#group", kGroupCheckType},
          {"#resource", kResourceCheckType},
          {"#decision", kDecisionType}}) {
      out[short_name] = out[std::string(name)] = library_type(TypeKind::kStruct, name);
    }
    return out;
  }());
  return names;
}

const StringMap<std::vector<Overload>>& functions() {
  static const auto& all = *new StringMap<std::vector<Overload>>([] {
    StringMap<std::vector<Overload>> out;
    for (const auto rows : {operator_rows(), conversion_rows(), list_rows(), string_rows(),
                            optional_rows(), time_rows(), regex_rows(), network_rows(), url_rows(),
                            quantity_rows(), semver_rows(), format_rows(), authorizer_rows()}) {
      for (const OverloadRow& row : rows) {
        out[std::string(row.function)].push_back(SignatureReader(row.signature).read(row));
      }
    }
    return out;
  }());
  return all;
}

}  // namespace

const std::vector<Overload>* find_function(std::string_view name) {
  const auto found = functions().find(name);
  return found == functions().end() ? nullptr : &found->second;
}

TypePtr find_type_name(std::string_view name) {
  const auto found = type_names().find(name);
  return found == type_names().end() ? nullptr : found->second;
}

bool accepts(const Type& type, const Value& value) noexcept {
  switch (type.kind) {
    case TypeKind::kDyn:
    case TypeKind::kParam:
      return true;
    case TypeKind::kNull:
      return value.is(Kind::kNull);
    case TypeKind::kBool:
      return value.is(Kind::kBool);
    case TypeKind::kInt:
      return value.is(Kind::kInt);
    case TypeKind::kUint:
      return value.is(Kind::kUint);
    case TypeKind::kDouble:
      return value.is(Kind::kDouble);
    case TypeKind::kString:
      return value.is(Kind::kString);
    case TypeKind::kBytes:
      return value.is(Kind::kBytes);
    case TypeKind::kDuration:
      return value.is(Kind::kDuration);
    case TypeKind::kTimestamp:
      return value.is(Kind::kTimestamp);
    case TypeKind::kList:
      return value.is(Kind::kList);
    case TypeKind::kMap:
      return value.is(Kind::kMap);
    case TypeKind::kType:
      return value.is(Kind::kType);
    case TypeKind::kStruct:
    case TypeKind::kOpaque:
      return type.declaration != nullptr ? value.is(Kind::kMap) : type.name == value.type_name();
    case TypeKind::kError:
      return false;
  }
  return false;
}

Value apply_overloads(const Args& args, const Expr& call) {
  for (std::size_t i = 0; i < args.count; ++i) {
    if (args[i].is_error()) {
      return args[i];
    }
  }
  const Overload* any = nullptr;
  for (const Overload* overload : call.overloads) {
    bool fits = overload->call != nullptr;
    for (std::size_t i = 0; fits && i < args.count; ++i) {
      fits = accepts(*overload->params[i], args[i]);
    }
    if (fits) {
      return overload->call(args);
    }
    any = overload->call != nullptr ? overload : any;
  }
  const char first = call.name[0];
  const bool is_operator = first == '_' || first == '!' || first == '-' || first == '@';
  if (call.op == Op::kPattern || call.name == "contains" || call.name == "startsWith" ||
      call.name == "endsWith" || call.name == "sort") {
    return Value::no_overload();
  }
  if (any != nullptr && (is_operator || call.name == "size")) {
    return any->call(args);  // says what it does not take
  }
  std::string given;
  for (std::size_t i = 0; i < args.count; ++i) {
    given += (i == 0 ? "" : ", ") + std::string(args[i].type_name());
  }
  return Value::error("no such overload: " + call.name + '(' + given + ')');
}

}  // namespace kintsugi::cel
