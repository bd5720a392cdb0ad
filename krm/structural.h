#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "krm/json.h"
#include "krm/schema.h"

/// Custom objects by their structural schema (AM-390 to AM-405). Order on the way in:
/// prune, coerce_metadata, apply_defaults, then validation.
namespace kintsugi::krm {

/// Reads an openAPIV3Schema of a valid CustomResourceDefinition. With `whole_object` the schema
/// gets apiVersion, kind and metadata (ObjectMeta) at its root, whatever it says about them. Never
/// fails: what is malformed is left out (validate_structural_schema reports it).
[[nodiscard]] SchemaPtr structural_schema(const Json& schema, bool whole_object);

/// Drops what the schema does not know. At the root and in embedded resources apiVersion, kind and
/// metadata stay. @returns the dropped paths, sorted ("spec.x", "spec.items[0].y").
std::vector<std::string> prune(const Schema& schema, Json& object);

/// Makes metadata of the object and of embedded resources what ObjectMeta can hold.
/// @param unknown receives dropped paths, sorted.
/// @error kBadRequest  in Go's words: a wrong type inside metadata (AM-142).
[[nodiscard]] Expected<void> coerce_metadata(const Schema& schema, Json& object,
                                             std::vector<std::string>* unknown = nullptr);

/// Fills defaults (absent, and null where the schema is not nullable), then drops null of
/// non-nullable properties without default (AM-405).
void apply_defaults(const Schema& schema, Json& value);

/// Only fills defaults: null without default stays and is for validation to refuse (AM-249).
void fill_defaults(const Schema& schema, Json& value);

/// Validates a whole custom object: schema, embedded resources, list sets and maps; not metadata of
/// the object itself (krm/names.h), not x-kubernetes-validations. Causes are in Kubernetes' words
/// (2.1, 13.3).
/// @param old  the stored object on update: what is invalid but unchanged is accepted (AM-395).
void validate_object(const Schema& schema, const Json& object, std::vector<Cause>& causes,
                     const Json* old = nullptr);

/// The same for a write to /status: the schema of `status` only, whose messages name places inside
/// of status.
void validate_status(const Schema& schema, const Json& object, std::vector<Cause>& causes,
                     const Json* old = nullptr);

/// The schema part of validate_object for a value at a path ("spec.a"; "" prints as in defaults).
void validate_value(const Schema& schema, const Json& value, std::string_view path,
                    std::vector<Cause>& causes, const Json* old = nullptr);

/// True when x-kubernetes-validations cannot run because of these causes (AM-391, AM-422); the
/// answer then ends with rules_not_checked().
[[nodiscard]] bool blocks_rules(const std::vector<Cause>& causes) noexcept;
[[nodiscard]] Cause rules_not_checked();
/// True when x-kubernetes-validations stand anywhere in the schema.
[[nodiscard]] bool has_rules(const Schema& schema);

/// Runs the x-kubernetes-validations of a part of the schema under validation on its default.
/// @param part   the very object inside of the schema that has the default.
/// @param path   of the default, for causes.
/// @returns false when they have cost so much that no further default is to be looked at.
using DefaultRules = std::function<bool(const Json& part, const Json& value,
                                        const std::string& path, std::vector<Cause>& causes)>;

/// Validates an openAPIV3Schema (13.1: AM-359 to AM-370), causes sorted by path.
/// @param path   "spec.validation.openAPIV3Schema" or "spec.versions[0].schema.openAPIV3Schema".
/// @param rules  called for defaults that fit otherwise; none: not looked at.
/// @returns whether it is structural and its defaults fit, so that its rules can be compiled.
bool validate_structural_schema(const Json& schema, std::string_view path,
                                std::vector<Cause>& causes, const DefaultRules& rules = {});

}  // namespace kintsugi::krm
