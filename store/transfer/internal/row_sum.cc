#include "store/transfer/internal/row_sum.h"

#include <cstring>

#include "base/digest.h"
#include "base/strings.h"

namespace kintsugi::store {

RowSum::Lanes RowSum::lanes_of(std::string_view key, std::string_view value) {
  std::string framed = std::to_string(key.size()) + ' ';
  framed.append(key).append(value);
  const auto digest = sha256(framed);
  Lanes lanes{};
  static_assert(sizeof(lanes) == sizeof(digest));
  std::memcpy(lanes.data(), digest.data(), sizeof(lanes));
  return lanes;
}

void RowSum::add(std::string_view key, std::string_view value) {
  const Lanes lanes = lanes_of(key, value);
  for (std::size_t i = 0; i < lanes.size(); ++i) {
    lanes_[i] += lanes[i];
  }
  ++rows_;
}

void RowSum::remove(std::string_view key, std::string_view value) {
  const Lanes lanes = lanes_of(key, value);
  for (std::size_t i = 0; i < lanes.size(); ++i) {
    lanes_[i] -= lanes[i];
  }
  --rows_;
}

std::string RowSum::digest() const {
  std::string bytes(sizeof(lanes_), '\0');
  std::memcpy(bytes.data(), lanes_.data(), bytes.size());
  return hex_encode(bytes);
}

}  // namespace kintsugi::store
