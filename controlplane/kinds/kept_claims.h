#pragma once

#include <string_view>

/// On an APIBinding, as JSON: what one version can say of the claims in its status and the other
/// cannot; conversion. Those of its spec stand in krm/annotations.h. Source: KK-170.
namespace kintsugi::controlplane {

/// @{ Kept for v1alpha2: verbs and selectors.
inline constexpr std::string_view kStatusExportClaimsAnnotation =
    "apis.v1alpha2.kcp.io/status-export-permission-claims";
inline constexpr std::string_view kStatusAppliedClaimsAnnotation =
    "apis.v1alpha2.kcp.io/status-applied-permission-claims";
/// @}
/// @{ Kept for v1alpha1: all and resourceSelector.
inline constexpr std::string_view kStatusExportClaimsV1alpha1Annotation =
    "apis.v1alpha2.kcp.io/v1alpha1-status-export-permission-claims";
inline constexpr std::string_view kStatusAppliedClaimsV1alpha1Annotation =
    "apis.v1alpha2.kcp.io/v1alpha1-status-applied-permission-claims";
/// @}

}  // namespace kintsugi::controlplane
