#pragma once

#include <charconv>
#include <string>
#include <string_view>
#include <utility>

#include "krm/other_members.h"
#include "krm/protobuf_wire.h"
#include "workers/eventing/contract/internal/fields.h"

/// Visitors of fields.h that write.
namespace kintsugi::workers {

class WireFieldWriter {
 public:
  explicit WireFieldWriter(std::string& out) : out_(out) {}
  template <class M>
  static std::string encode(M& m) {
    std::string out;
    WireFieldWriter writer(out);
    visit_fields(writer, m);
    out += m.unknown.wire;
    return out;
  }

  void text(std::uint32_t n, std::string_view, std::string& value) {
    if (!value.empty()) {
      krm::put_bytes(out_, n, value);
    }
  }
  template <class N>
  void number(std::uint32_t n, std::string_view, N& value) {
    if (value != 0) {
      krm::put_number(out_, n, static_cast<std::uint64_t>(static_cast<std::int64_t>(value)));
    }
  }
  void flag(std::uint32_t n, std::string_view, bool& value) {
    if (value) {
      krm::put_number(out_, n, 1);
    }
  }
  template <class E, class Names>
  void choice(std::uint32_t n, std::string_view, E& value, const Names&) {
    if (static_cast<std::uint64_t>(value) != 0) {
      krm::put_number(out_, n, static_cast<std::uint64_t>(value));
    }
  }
  void texts(std::uint32_t n, std::string_view, std::vector<std::string>& values) {
    for (const std::string& value : values) {
      krm::put_bytes(out_, n, value);
    }
  }
  template <class M>
  void message(std::uint32_t n, std::string_view, std::optional<M>& value) {
    if (value) {
      krm::put_bytes(out_, n, encode(*value));
    }
  }
  template <class M>
  void messages(std::uint32_t n, std::string_view, std::vector<M>& values) {
    for (M& value : values) {
      krm::put_bytes(out_, n, encode(value));
    }
  }
  void text_map(std::uint32_t n, std::string_view, TextMap& map) {
    for (const auto& [key, value] : map) {
      std::string entry;
      krm::put_bytes(entry, 1, key);
      krm::put_bytes(entry, 2, value);
      krm::put_bytes(out_, n, entry);
    }
  }
  void map_message(std::uint32_t n, std::string_view, std::string_view, std::optional<TextMap>& m) {
    if (m) {
      std::string inner;
      WireFieldWriter(inner).text_map(1, {}, *m);
      krm::put_bytes(out_, n, inner);
    }
  }
  template <class F>
  void one_text(std::uint32_t n, std::string_view, std::string& value, bool here, const F&) {
    if (here) {
      krm::put_bytes(out_, n, value);
    }
  }
  template <class M, class F>
  void one_message(std::uint32_t n, std::string_view, M& value, bool here, const F&) {
    if (here) {
      krm::put_bytes(out_, n, encode(value));
    }
  }

 private:
  std::string& out_;
};

class JsonFieldWriter {
 public:
  explicit JsonFieldWriter(krm::Json& out) : out_(out) {}
  template <class M>
  static krm::Json encode(M& m) {
    krm::Json out = krm::Json::object();
    krm::add_members(out, m.unknown.members);
    JsonFieldWriter writer(out);
    visit_fields(writer, m);
    return out;
  }

  void text(std::uint32_t, std::string_view name, std::string& value) {
    if (!value.empty()) {
      out_[name] = value;
    }
  }
  template <class N>
  void number(std::uint32_t, std::string_view name, N& value) {
    if (value == 0) {
      return;
    }
    if constexpr (sizeof(N) == 8) {
      out_[name] = std::to_string(value);
    } else {
      out_[name] = static_cast<std::int64_t>(value);
    }
  }
  void flag(std::uint32_t, std::string_view name, bool& value) {
    if (value) {
      out_[name] = true;
    }
  }
  template <class E, class Names>
  void choice(std::uint32_t, std::string_view name, E& value, const Names& names) {
    const auto index = static_cast<std::size_t>(value);
    if (index != 0 && index < names.size()) {
      out_[name] = names[index];
    }
  }
  void texts(std::uint32_t, std::string_view name, std::vector<std::string>& values) {
    if (values.empty()) {
      return;
    }
    krm::Json list = krm::Json::array();
    for (const std::string& value : values) {
      list.push_back(value);
    }
    out_[name] = std::move(list);
  }
  template <class M>
  void message(std::uint32_t, std::string_view name, std::optional<M>& value) {
    if (value) {
      out_[name] = encode(*value);
    }
  }
  template <class M>
  void messages(std::uint32_t, std::string_view name, std::vector<M>& values) {
    if (values.empty()) {
      return;
    }
    krm::Json list = krm::Json::array();
    for (M& value : values) {
      list.push_back(encode(value));
    }
    out_[name] = std::move(list);
  }
  void text_map(std::uint32_t, std::string_view name, TextMap& map) {
    if (!map.empty()) {
      out_[name] = map_of(map);
    }
  }
  void map_message(std::uint32_t, std::string_view name, std::string_view inner,
                   std::optional<TextMap>& m) {
    if (m) {
      krm::Json message = krm::Json::object();
      JsonFieldWriter(message).text_map(1, inner, *m);
      out_[name] = std::move(message);
    }
  }
  template <class F>
  void one_text(std::uint32_t, std::string_view name, std::string& value, bool here, const F&) {
    if (here) {
      out_[name] = value;
    }
  }
  template <class M, class F>
  void one_message(std::uint32_t, std::string_view name, M& value, bool here, const F&) {
    if (here) {
      out_[name] = encode(value);
    }
  }

 private:
  static krm::Json map_of(const TextMap& map) {
    krm::Json out = krm::Json::object();
    for (const auto& [key, value] : map) {
      out[key] = value;
    }
    return out;
  }
  krm::Json& out_;
};

}  // namespace kintsugi::workers
