#include "krm/internal/target_parts.h"

#include <algorithm>

#include "base/strings.h"
#include "krm/path_prefixes.h"

namespace kintsugi::krm {

bool is_text(std::string_view bytes) {
  if (!is_valid_utf8(bytes)) {
    return false;
  }
  for (std::size_t i = 0; i + 1 < bytes.size(); ++i) {
    if (bytes[i] == '\xC2' && static_cast<unsigned char>(bytes[i + 1]) < 0xA0) {
      return false;
    }
  }
  return true;
}

std::size_t front_of(std::string_view path, const RequestTarget& target) {
  if (target.form == TargetForm::kCluster || target.form == TargetForm::kService) {
    return target.trail;
  }
  const std::size_t word = std::min(path.find(kClustersPrefix), path.find(kServicesPrefix));
  return word == std::string_view::npos ? 0 : word;
}

}  // namespace kintsugi::krm
