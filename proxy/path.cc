#include "proxy/path.h"

#include <vector>

#include "base/strings.h"

namespace kintsugi::proxy {
namespace {

std::string_view path_of(std::string_view target) { return target.substr(0, target.find('?')); }

int hex(char c) noexcept {
  if (c >= '0' && c <= '9') {
    return c - '0';
  }
  const char lower = static_cast<char>(c | 0x20);
  return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
}

/// A segment between raw slashes.
struct SegmentVerdict {
  bool dot = false;      // "." or ".." after decoding
  bool broken = false;   // % without two hex digits
  bool control = false;  // NUL or control byte, raw or escaped
  bool hidden = false;   // an escaped separator that would make an empty or dot segment
};

SegmentVerdict judge_segment(std::string_view segment) noexcept {
  SegmentVerdict verdict;
  std::size_t part = 0;  // decoded bytes since the last separator, raw or escaped
  bool dots_only = true;
  bool escaped_separator = false;
  const auto end_part = [&] {
    verdict.hidden = verdict.hidden || part == 0 || (dots_only && part <= 2);
    part = 0;
    dots_only = true;
  };
  for (std::size_t i = 0; i < segment.size(); ++i) {
    auto byte = static_cast<unsigned char>(segment[i]);
    bool escaped = false;
    if (segment[i] == '%') {
      const int high = i + 2 < segment.size() ? hex(segment[i + 1]) : -1;
      const int low = high >= 0 ? hex(segment[i + 2]) : -1;
      if (low < 0) {
        verdict.broken = true;
        return verdict;
      }
      byte = static_cast<unsigned char>(high * 16 + low);
      escaped = true;
      i += 2;
    }
    verdict.control = verdict.control || byte < 0x20 || byte == 0x7F;
    if (escaped && (byte == '/' || byte == '\\')) {
      escaped_separator = true;
      end_part();
      continue;
    }
    ++part;
    dots_only = dots_only && byte == '.';
  }
  if (escaped_separator) {
    end_part();
  } else {
    verdict.hidden = false;
    verdict.dot = dots_only && (part == 1 || part == 2);
  }
  return verdict;
}

/// Runs over the segments; `visit(segment, index, verdict)` returns false to stop.
template <class Visit>
void for_each_segment(std::string_view path, Visit visit) {
  std::size_t begin = path.starts_with('/') ? 1 : 0;
  for (std::size_t index = 0;; ++index) {
    const std::size_t slash = path.find('/', begin);
    const bool last = slash == std::string_view::npos;
    const std::string_view segment = path.substr(begin, last ? slash : slash - begin);
    if (!visit(segment, index, last) || last) {
      return;
    }
    begin = slash + 1;
  }
}

/// In /clusters/<segment>/… the cluster segment is judged by resolution (E1), not here.
bool is_cluster_segment(std::string_view path, std::size_t index) {
  return index == 1 && path.starts_with("/clusters/");
}

}  // namespace

PathVerdict judge_path(std::string_view target) noexcept {
  const std::string_view path = path_of(target);
  PathVerdict result = PathVerdict::kClean;
  for_each_segment(path, [&](std::string_view segment, std::size_t index, bool last) {
    const SegmentVerdict verdict = judge_segment(segment);
    const bool judged_later = is_cluster_segment(path, index);
    if (verdict.broken || ((verdict.control || verdict.hidden) && !judged_later)) {
      result = PathVerdict::kMalformed;
      return false;
    }
    if (verdict.dot || (segment.empty() && !last)) {
      result = PathVerdict::kUnclean;
    }
    return true;
  });
  return result;
}

std::string clean_location(std::string_view target) {
  const std::string_view path = path_of(target);
  std::vector<std::string_view> kept;
  bool trailing = false;
  for_each_segment(path, [&](std::string_view segment, std::size_t, bool last) {
    const SegmentVerdict verdict = judge_segment(segment);
    if (verdict.dot) {
      const bool parent = percent_decode(segment).value_or("") == "..";
      if (parent && !kept.empty()) {
        kept.pop_back();
      }
    } else if (!segment.empty()) {
      kept.push_back(segment);
    } else if (last) {
      trailing = true;
    }
    return true;
  });
  std::string out;
  for (const std::string_view segment : kept) {
    out.append("/").append(segment);
  }
  if (trailing || out.empty()) {
    out += '/';
  }
  const std::size_t query = target.find('?');
  if (query != std::string_view::npos) {
    out.append(target.substr(query));
  }
  return out;
}

std::string malformed_reason(std::string_view target) {
  std::string reason = "malformed path";
  for_each_segment(path_of(target), [&](std::string_view segment, std::size_t, bool) {
    const SegmentVerdict verdict = judge_segment(segment);
    if (verdict.broken) {
      reason = "malformed path: % in \"" + std::string(segment) +
               "\" is not followed by two hexadecimal digits";
    } else if (verdict.control) {
      reason = "malformed path: \"" + std::string(segment) + "\" holds a control character";
    } else if (verdict.hidden) {
      reason = "malformed path: \"" + std::string(segment) + "\" hides a path separator";
    }
    return reason == "malformed path";
  });
  return reason;
}

std::string shown_path(std::string_view target) {
  const std::string_view path = path_of(target);
  return percent_decode(path).value_or(std::string(path));
}

bool is_watch(std::string_view target) noexcept {
  const std::size_t question = target.find('?');
  if (question != std::string_view::npos) {
    std::string_view query = target.substr(question + 1);
    while (!query.empty()) {
      const std::size_t end = query.find('&');
      const std::string_view pair = query.substr(0, end);
      if (pair == "watch" || pair.starts_with("watch=")) {
        const std::string_view value = pair.size() > 6 ? pair.substr(6) : std::string_view();
        return value != "0" && !equals_ignore_case(value, "false");
      }
      query = end == std::string_view::npos ? std::string_view() : query.substr(end + 1);
    }
  }
  const std::string_view path = target.substr(0, question);
  return path.find("/watch/") != std::string_view::npos;
}

}  // namespace kintsugi::proxy
