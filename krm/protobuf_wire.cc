#include "krm/protobuf_wire.h"

#include <bit>

namespace kintsugi::krm {

bool WireReader::next_varint(std::uint64_t& out) noexcept {
  if (rest_.empty()) {
    return false;
  }
  out = 0;
  for (unsigned i = 0; i < 10 && i < rest_.size(); ++i) {
    const auto byte = static_cast<std::uint8_t>(rest_[i]);
    if (i == 9 && byte > 1) {
      return bad();
    }
    out |= static_cast<std::uint64_t>(byte & 0x7F) << (7 * i);
    if ((byte & 0x80) == 0) {
      rest_.remove_prefix(i + 1);
      return true;
    }
  }
  return bad();
}

bool WireReader::next_fixed64(std::uint64_t& out) noexcept {
  if (rest_.empty()) {
    return false;
  }
  if (rest_.size() < 8) {
    return bad();
  }
  out = 0;
  for (unsigned i = 0; i < 8; ++i) {
    out |= static_cast<std::uint64_t>(static_cast<std::uint8_t>(rest_[i])) << (8 * i);
  }
  rest_.remove_prefix(8);
  return true;
}

bool WireReader::next(WireField& out) noexcept {
  std::uint64_t tag = 0;
  if (malformed_ || !next_varint(tag)) {
    return false;
  }
  const std::uint64_t field = tag >> 3;
  if (field == 0 || field > 0x1FFF'FFFF) {
    return bad();
  }
  out = WireField();
  out.field = static_cast<std::uint32_t>(field);
  switch (tag & 7) {
    case 0:
      out.type = WireType::kVarint;
      return next_varint(out.number) || bad();
    case 1:
      out.type = WireType::kFixed64;
      return next_fixed64(out.number) || bad();
    case 2: {
      out.type = WireType::kBytes;
      std::uint64_t size = 0;
      if (!next_varint(size) || size > rest_.size()) {
        return bad();
      }
      out.bytes = rest_.substr(0, static_cast<std::size_t>(size));
      rest_.remove_prefix(static_cast<std::size_t>(size));
      return true;
    }
    case 5: {
      out.type = WireType::kFixed32;
      if (rest_.size() < 4) {
        return bad();
      }
      for (unsigned i = 0; i < 4; ++i) {
        out.number |= static_cast<std::uint64_t>(static_cast<std::uint8_t>(rest_[i])) << (8 * i);
      }
      rest_.remove_prefix(4);
      return true;
    }
    default:
      return bad();
  }
}

void put_varint(std::string& out, std::uint64_t value) {
  while (value >= 0x80) {
    out.push_back(static_cast<char>((value & 0x7F) | 0x80));
    value >>= 7;
  }
  out.push_back(static_cast<char>(value));
}

void put_number(std::string& out, std::uint32_t field, std::uint64_t value) {
  put_varint(out, std::uint64_t{field} << 3);
  put_varint(out, value);
}

void put_fixed64(std::string& out, std::uint32_t field, std::uint64_t value) {
  put_varint(out, (std::uint64_t{field} << 3) | 1);
  for (unsigned i = 0; i < 8; ++i) {
    out.push_back(static_cast<char>(value & 0xFF));
    value >>= 8;
  }
}

void put_double(std::string& out, std::uint32_t field, double value) {
  put_fixed64(out, field, std::bit_cast<std::uint64_t>(value));
}

void put_bytes(std::string& out, std::uint32_t field, std::string_view bytes) {
  put_varint(out, (std::uint64_t{field} << 3) | 2);
  put_varint(out, bytes.size());
  out += bytes;
}

}  // namespace kintsugi::krm
