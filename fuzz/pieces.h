#pragma once

#include <cstddef>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

/// Only for fuzz targets: what a splitter of lists or events finds must not depend on the pieces in
/// which the bytes come.
namespace kintsugi::fuzz {

inline void check(bool holds) {
  if (!holds) {
    std::abort();
  }
}

/// What a Splitter takes out of a text that comes in pieces of this size.
template <class Splitter>
std::vector<std::string> split(std::string_view text, std::size_t piece, bool& fault) {
  Splitter splitter(1U << 20);
  std::vector<std::string> out;
  fault = false;
  while (!text.empty() && !fault) {
    const std::string_view part = text.substr(0, piece);
    fault = splitter.feed(part, [&](std::string_view each) { out.emplace_back(each); }) !=
            Splitter::Fault::kNone;
    text.remove_prefix(part.size());
  }
  return out;
}

template <class Splitter>
std::vector<std::string> split_both_ways(std::string_view text) {
  bool whole_fault = false;
  bool pieces_fault = false;
  const auto whole = split<Splitter>(text, text.size() + 1, whole_fault);
  const auto pieces = split<Splitter>(text, 1 + text.size() / 7, pieces_fault);
  check(whole_fault == pieces_fault && whole == pieces);
  return whole;
}

}  // namespace kintsugi::fuzz
