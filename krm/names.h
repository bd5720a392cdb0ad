#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "krm/json.h"

namespace kintsugi::krm {

// Each returns what is wrong with `text`, in Kubernetes' words; empty when it is fine.
using Messages = std::vector<std::string>;
[[nodiscard]] Messages check_dns1123_subdomain(std::string_view text);
[[nodiscard]] Messages check_dns1123_label(std::string_view text);
[[nodiscard]] Messages check_dns1035_label(std::string_view text);
[[nodiscard]] Messages check_path_segment(std::string_view text);
[[nodiscard]] Messages check_qualified_name(std::string_view text);  ///< keys of labels, finalizers
[[nodiscard]] Messages check_label_value(std::string_view text);
/// Keys of ConfigMap and Secret data.
[[nodiscard]] Messages check_config_key(std::string_view text);

/// Neither "." nor "..", no '/', no '%'.
[[nodiscard]] bool is_path_segment_name(std::string_view text) noexcept;

enum class NameRule : std::uint8_t {
  kSubdomain,    ///< DNS-1123 subdomain, the usual one
  kLabel,        ///< DNS-1123 label (Namespace)
  kLabel1035,    ///< DNS-1035 label (Service)
  kPathSegment,  ///< RBAC
  kAny
};
/// @param prefix the text is a generateName: a dash at its end is allowed.
[[nodiscard]] Messages check_name(NameRule rule, std::string_view text, bool prefix = false);

/// How one kind's metadata is checked.
struct MetaRules {
  bool namespaced = true;
  NameRule name = NameRule::kSubdomain;
  /// Builtin kinds refuse finalizers that are neither standard nor qualified; others only need a
  /// qualified name.
  bool builtin = false;
};

/// Appends what is wrong with an object's metadata, in Kubernetes' order: generateName, name,
/// namespace, generation, labels, annotations (AM-060), ownerReferences, finalizers (AM-162 to
/// AM-165). The types of the members are the decoder's business; wrongly typed ones count as
/// absent.
/// @param field path of the metadata ("metadata", "spec.template.metadata").
void validate_object_meta(const Json& meta, const MetaRules& rules, std::string_view field,
                          std::vector<Cause>& causes);

// Its parts, for metadata that is no top-level one.
void validate_labels(const Json& labels, std::string_view field, std::vector<Cause>& causes);
void validate_annotations(const Json& annotations, std::string_view field,
                          std::vector<Cause>& causes);

}  // namespace kintsugi::krm
