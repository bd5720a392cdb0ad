#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace kintsugi::shards {

/// The JSON text of a list, cut into its items without reading them: they are parsed one by one, so
/// that a list of 64 MiB never stands in memory as values, and one bad item spoils no other.
struct PageText {
  std::string frame;                    ///< the text with nothing between the brackets of `items`
  std::vector<std::string_view> items;  ///< without blanks around; point into the body
};

/// @returns nullopt when the brackets do not close, there is text behind them, or `items` comes
///          twice. Whether `frame` and items are JSON is for whoever parses them to find out.
/// Cost: one pass over the bytes.
[[nodiscard]] std::optional<PageText> scan_page(std::string_view body);

/// Whether a value of the header Warning says that an answer lacks what a shard has (RT-27).
[[nodiscard]] bool names_missing_shard(std::string_view warning) noexcept;

}  // namespace kintsugi::shards
