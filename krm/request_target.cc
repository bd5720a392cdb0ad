#include "krm/request_target.h"

#include <algorithm>
#include <array>
#include <optional>
#include <vector>

#include "base/reading_counts.h"
#include "base/strings.h"
#include "krm/go_text.h"
#include "krm/internal/path_bytes.h"
#include "krm/internal/path_shape.h"
#include "krm/internal/target_parts.h"
#include "krm/status.h"

namespace kintsugi::krm {
namespace {

constexpr std::size_t kMostPath = 16U << 10;    // [bytes]
constexpr std::size_t kMostTarget = 48U << 10;  // [bytes], with the query
constexpr std::string_view kEncodedSlash = "invalid path: encoded slash";

int hex(char c) noexcept {
  if (c >= '0' && c <= '9') {
    return c - '0';
  }
  const char lower = static_cast<char>(c | 0x20);
  return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
}

bool has_escape(std::string_view text) noexcept { return text.find('%') != std::string_view::npos; }

/// Decoded once; what cannot be decoded stays as it is.
std::string decoded(std::string_view text) {
  return has_escape(text) ? percent_decode(text).value_or(std::string(text)) : std::string(text);
}

/// The same without an allocation where nothing is escaped.
bool spells(std::string_view segment, std::string_view word) {
  return segment == word || (has_escape(segment) && decoded(segment) == word);
}

/// Takes segments off the front of a path.
struct Cursor {
  std::string_view path;
  std::size_t at = 0;  ///< of a slash, or the end

  [[nodiscard]] bool at_end() const noexcept { return at >= path.size(); }
  /// The next one as sent; "" when there is none, or an empty one.
  std::string_view next() noexcept {
    const std::size_t begin = std::min(at + 1, path.size());
    at = std::min(path.find('/', begin), path.size());
    return path.substr(begin, at - begin);
  }
};

TargetWord word_of(std::string_view segment) {
  constexpr std::pair<std::string_view, TargetWord> kWords[] = {
      {"clusters", TargetWord::kClusters},
      {"services", TargetWord::kServices},
      {"shards", TargetWord::kShards},
      {"partitions", TargetWord::kPartitions}};
  for (const auto& [text, word] : kWords) {
    if (spells(segment, text)) {
      return word;
    }
  }
  return TargetWord::kNone;
}

/// kOther for what is not built in.
TargetForm built_in(std::string_view path) {
  constexpr std::string_view kProbes[] = {"/livez", "/livez/ping", "/readyz",
                                          "/readyz/informer-sync"};
  if (std::any_of(std::begin(kProbes), std::end(kProbes),
                  [path](std::string_view one) { return spells(path, one); })) {
    return TargetForm::kProbe;
  }
  if (spells(path, "/healthz") || spells(path, "/version")) {
    return TargetForm::kInfo;
  }
  return spells(path, "/metrics") ? TargetForm::kMetrics : TargetForm::kOther;
}

/// Reads what stands before the trail. @param cluster  where the cluster's segment stands.
void read_prefix(std::string_view target, RequestTarget& out, std::string_view& cluster) {
  const std::string_view path = target.substr(0, out.query);
  Cursor cursor{path};
  out.word = word_of(cursor.next());
  TargetWord inner = out.word;
  if (out.word == TargetWord::kShards) {
    out.scope = TargetScope::kShard;
    out.scope_name = decoded(cursor.next());
    out.inner = cursor.at;
  } else if (out.word == TargetWord::kPartitions) {
    out.scope = TargetScope::kPartition;
    out.scope_cluster = decoded(cursor.next());
    out.scope_name = decoded(cursor.next());
    out.inner = cursor.at;
  } else if (out.word == TargetWord::kNone) {
    out.form = built_in(path);
    if (out.form != TargetForm::kOther) {
      return;
    }
  }
  if (out.scope != TargetScope::kNone) {
    inner = word_of(cursor.next());
  }
  if (inner == TargetWord::kClusters) {
    const std::string_view segment = cursor.next();
    if (!segment.empty()) {
      cluster = segment;
      out.form = TargetForm::kCluster;
      out.cluster = decoded(segment);
      out.trail = cursor.at;
      return;
    }
  } else if (inner == TargetWord::kServices && !cursor.at_end()) {
    out.service = virtual_workspace_of(target.substr(out.inner));
    out.form = TargetForm::kNoService;
    if (auto service = parse_service_path(target.substr(out.inner))) {
      out.form = TargetForm::kService;
      out.cluster = service->cluster;
      out.trail = target.size() - service->trail.size();
      out.path = std::make_shared<const ServicePath>(std::move(*service));
    }
  }
  if (out.cluster.empty()) {
    out.cluster = named_cluster(path.substr(std::min(out.inner, path.size())));
  }
}

/// Decoded segments of a path without its outer slashes, as PathShape reads them.
class FirstSegments {
 public:
  explicit FirstSegments(std::string_view path) {
    if (has_escape(path)) {
      buffer_ = percent_decode(path);
      path = buffer_ ? std::string_view(*buffer_) : std::string_view();
    }
    while (path.ends_with('/')) {
      path.remove_suffix(1);
    }
    while (path.starts_with('/')) {
      path.remove_prefix(1);
    }
    for (; !path.empty(); ++count_) {
      const std::size_t slash = std::min(path.find('/'), path.size());
      if (slash == 0) {  // an empty segment: no API path
        count_ = 0;
        return;
      }
      if (count_ < first_.size()) {
        first_[count_] = path.substr(0, slash);
      }
      path.remove_prefix(std::min(slash + 1, path.size()));
    }
  }
  [[nodiscard]] PathShape shape() const {
    return PathShape::of(count_, [this](std::size_t i) { return first_[i]; });
  }
  [[nodiscard]] std::string_view operator[](std::size_t i) const {
    return i < first_.size() ? first_[i] : std::string_view();
  }

 private:
  std::optional<std::string> buffer_;
  std::array<std::string_view, 10> first_;
  std::size_t count_ = 0;
};

/// The first value of `watch`, as Query reads it, without reading the rest.
bool query_asks_for_watch(std::string_view query) {
  while (!query.empty()) {
    const std::size_t end = std::min(query.find('&'), query.size());
    const std::string_view pair = query.substr(0, end);
    query.remove_prefix(std::min(end + 1, query.size()));
    const std::size_t equals = std::min(pair.find('='), pair.size());
    const std::string_view key = pair.substr(0, equals);
    if (pair.find(';') != std::string_view::npos || !spells(key, "watch")) {
      continue;
    }
    if (const auto value = percent_decode(pair.substr(std::min(equals + 1, pair.size())), true)) {
      return asks_for_watch(*value);
    }
  }
  return false;
}

/// Whether a trail that begins so is a second scope (SE-033). Behind the name of a cluster
/// "clusters" is none: that is a path as any other, of which the cluster's shard judges (FP-043).
bool begins_a_scope(std::string_view segment, const RequestTarget& target) noexcept {
  const bool behind_name = target.form == TargetForm::kCluster && target.cluster != "*";
  return segment == "shards" || segment == "partitions" || (segment == "clusters" && !behind_name);
}

/// Virtual workspaces whose trails are their own, and paths of other servers.
bool is_foreign(const RequestTarget& target) {
  const bool is_unknown =
      target.service == VirtualWorkspace::kOther || target.service == VirtualWorkspace::kAdmin;
  return target.form == TargetForm::kOther || (target.form == TargetForm::kService && is_unknown);
}

void read_verb(std::string_view method, std::string_view target, TargetRules rules,
               RequestTarget& out) {
  const FirstSegments segments(target.substr(out.trail, out.query - out.trail));
  const bool has_trail = out.form == TargetForm::kCluster || out.form == TargetForm::kService;
  const bool judged = has_trail && !rules.shard && !rules.opaque_proxy && !is_foreign(out);
  out.form = judged && begins_a_scope(segments[0], out) ? TargetForm::kOther : out.form;  // SE-033
  const PathShape shape = segments.shape();
  const bool reads = method == "GET" || method == "HEAD";
  const auto asks = [&] {
    return reads && query_asks_for_watch(target.substr(std::min(out.query + 1, target.size())));
  };
  if (!shape.is_resource) {
    out.is_watch = is_foreign(out) && asks();
  } else if (shape.special != PathShape::Special::kNone) {
    out.is_watch = shape.special == PathShape::Special::kWatch;
  } else {
    out.is_watch = !shape.has_name() && asks();
  }
  const std::string_view sub = segments[shape.subresource];
  out.is_long_running = out.is_watch || shape.special == PathShape::Special::kProxy ||
                        sub == "exec" || sub == "attach" || sub == "portforward" ||
                        sub == "proxy" || sub == "log";
}

/// A path without empty and dot segments; nullopt when it would lead above its beginning, and must
/// not.
std::optional<std::string> cleaned(std::string_view path, bool may_leave) {
  std::vector<std::string_view> kept;
  Cursor cursor{path};
  bool trailing = false;
  while (!cursor.at_end()) {
    const std::string_view segment = cursor.next();
    trailing = segment.empty();
    if (spells(segment, "..")) {
      if (kept.empty() && !may_leave) {
        return std::nullopt;
      }
      if (!kept.empty()) {
        kept.pop_back();
      }
    } else if (!segment.empty() && !spells(segment, ".")) {
      kept.push_back(segment);
    }
  }
  std::string out;
  for (const std::string_view segment : kept) {
    out.append("/").append(segment);
  }
  if (trailing || out.empty()) {
    out += '/';
  }
  return out;
}

/// Where what belongs to a server behind `…/proxy` begins; out.query for nowhere, as when it could
/// be elsewhere once what stands in front is cleaned.
std::size_t opaque_rest(std::string_view target, TargetRules rules, const RequestTarget& out) {
  const std::string_view trail = target.substr(out.trail, out.query - out.trail);
  for (std::size_t slash = trail.find('/', 1); slash != std::string_view::npos;
       slash = trail.find('/', slash + 1)) {
    const FirstSegments segments(trail.substr(0, slash));
    if (segments[segments.shape().subresource] == "proxy") {
      const std::size_t from = rules.shard ? out.trail : 0;  // what is cleaned
      const std::string_view front = target.substr(from, out.trail + slash - from);
      return cleaned(front, true) == front ? out.trail + slash : out.query;
    }
  }
  return out.query;
}

/// What is wrong with the bytes of a path.
struct Scan {
  enum class Kind : std::uint8_t { kNone, kByte, kEscape, kControl, kUtf8, kHidden };
  Kind kind = Kind::kNone;
  std::size_t at = 0;    ///< of the first fault
  bool unclean = false;  ///< empty or dot segments
  bool nowhere = false;  ///< an escaped dot segment in front of the trail: no path of ours
  bool high = false;     ///< escapes of bytes from 0x80 on
  std::size_t first_high = 0;

  void found(Kind what, std::size_t where) noexcept {
    if (kind == Kind::kNone) {
      kind = what;
      at = where;
    }
  }
};

/// One segment between raw slashes. @param is_cluster  what it hides is for resolution to refuse.
void scan_segment(std::string_view text, std::size_t begin, std::size_t end, bool is_cluster,
                  Scan& scan) {
  std::size_t part = 0;  // decoded bytes since the last separator, raw or escaped
  bool dots_only = true, separated = false;
  const auto end_part = [&](std::size_t where) {
    if (!is_cluster && (part == 0 || (dots_only && part <= 2))) {
      scan.found(Scan::Kind::kHidden, where);
    }
    part = 0;
    dots_only = true;
  };
  for (std::size_t i = begin; i < end; ++i) {
    const Byte kind = byte_of(text[i]);
    if (kind == Byte::kPlain || kind == Byte::kDot) {
      ++part;
      dots_only = dots_only && kind == Byte::kDot;
      continue;
    }
    if (kind == Byte::kBackslash) {  // some take it for a slash
      separated = true;
      end_part(i);
      continue;
    }
    if (kind == Byte::kBad) {
      scan.found(Scan::Kind::kByte, i);
      return;
    }
    const int high = i + 2 < end ? hex(text[i + 1]) : -1;
    const int low = high >= 0 ? hex(text[i + 2]) : -1;
    if (low < 0) {
      scan.found(Scan::Kind::kEscape, i);
      return;
    }
    const int byte = high * 16 + low;
    if (byte < 0x20 || byte == 0x7F) {
      scan.found(Scan::Kind::kControl, i);
    } else if (byte >= 0x80 && !scan.high) {
      scan.high = true;
      scan.first_high = i;
    }
    if (byte == '/' || byte == '\\') {
      separated = true;
      end_part(i);
    } else {
      ++part;
      dots_only = dots_only && byte == '.';
    }
    i += 2;
  }
  if (separated) {
    end_part(end);
  } else if (dots_only && part > 0 && part <= 2) {
    scan.unclean = true;
  }
}

/// @param cluster  segment of the logical cluster; a part of `target`, or empty.
Scan scan_target(std::string_view target, const RequestTarget& out, std::string_view cluster,
                 bool shard) {
  Scan scan;
  const std::string_view path = target.substr(0, out.info_end);
  const std::size_t front = shard ? 0 : front_of(path, out);
  for (std::size_t begin = is_plain_path(path) ? path.size() + 1 : 1; begin <= path.size();) {
    const std::size_t end = std::min(path.find('/', begin), path.size());
    const bool is_cluster = !cluster.empty() && path.data() + begin == cluster.data();
    if (end == begin && end != path.size()) {
      scan.unclean = true;
    }
    const bool before = scan.unclean;
    scan_segment(target, begin, end, is_cluster, scan);
    if (shard && is_cluster) {
      scan.unclean = before;  // no cluster has such a name
    } else if (begin < front && scan.unclean && !before &&
               has_escape(path.substr(begin, end - begin))) {
      scan.unclean = before;
      scan.nowhere = scan.nowhere || !is_cluster;
    }
    begin = end + 1;
  }
  const std::string_view rest = target.substr(out.info_end);
  if (const auto* bad =
          std::find_if(rest.begin(), rest.end(), [](char c) { return byte_of(c) == Byte::kBad; });
      bad != rest.end()) {
    scan.found(Scan::Kind::kByte,
               out.info_end + static_cast<std::size_t>(std::distance(rest.begin(), bad)));
  }
  if (scan.kind == Scan::Kind::kNone && scan.high && !is_text(decoded(path))) {
    scan.found(Scan::Kind::kUtf8, scan.first_high);
  }
  return scan;
}

std::string reason_of(const Scan& scan) {
  const std::string at = " at offset " + std::to_string(scan.at);
  switch (scan.kind) {
    case Scan::Kind::kEscape:
      return "malformed path: %" + at + " is not followed by two hexadecimal digits";
    case Scan::Kind::kControl:
      return "malformed path: an escaped control character" + at;
    case Scan::Kind::kUtf8:
      return "malformed path: escaped bytes" + at + " are no text";
    case Scan::Kind::kByte:
      return "malformed path: a byte" + at + " has to be escaped";
    case Scan::Kind::kHidden:
      return std::string(kEncodedSlash);
    case Scan::Kind::kNone:
      break;
  }
  return {};
}

void refuse_unclean(std::string_view target, TargetRules rules, RequestTarget& out) {
  const std::size_t from =
      rules.shard && (out.form == TargetForm::kCluster || out.form == TargetForm::kService)
          ? out.trail
          : 0;
  const std::string_view sent = target.substr(from, out.info_end - from);
  const auto path = cleaned(sent, !rules.shard);
  if (!path || *path == sent) {  // what is unclean stands in front of the trail
    out.fault = TargetFault::kMalformed;
    out.reason = "malformed path: it leads above its logical cluster";
    return;
  }
  out.fault = TargetFault::kUnclean;
  out.reason =
      std::string(target.substr(0, from)) + *path + std::string(target.substr(out.info_end));
}

/// Below /clusters without a cluster: a shard has nothing there for anybody (KK-364), and must not
/// lead to the next segment as if it were one.
bool is_nowhere(const RequestTarget& out, TargetRules rules) {
  return rules.shard && out.form == TargetForm::kOther && out.word == TargetWord::kClusters;
}

/// A segment for a path: what may stand there unescaped stays.
void append_segment(std::string& out, std::string_view segment) {
  static constexpr char kDigits[] = "0123456789ABCDEF";
  for (const char c : segment) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       std::string_view("-._~:@!$&'()*+,;=").find(c) != std::string_view::npos;
    if (plain) {
      out += c;
    } else {
      const auto byte = static_cast<unsigned char>(c);
      out += '%';
      out += kDigits[byte >> 4U];
      out += kDigits[byte & 15U];
    }
  }
}

/// See RequestTarget::plain_prefix.
std::string plain_prefix_of(std::string_view cluster, const RequestTarget& out) {
  std::string plain;
  const auto add = [&plain](std::string_view word, const std::string* name) {
    plain.append("/").append(word);
    if (name != nullptr) {
      plain += '/';
      append_segment(plain, *name);
    }
  };
  if (out.scope == TargetScope::kShard) {
    add("shards", &out.scope_name);
  } else if (out.scope == TargetScope::kPartition) {
    add("partitions", &out.scope_cluster);
    plain += '/';
    append_segment(plain, out.scope_name);
  }
  if (out.form == TargetForm::kService) {
    const ServicePath& service = *out.path;
    const auto is_plain = [](const std::string& name) {
      return name.empty() || name == "*" || is_workspace_path(name);
    };
    if (!is_plain(service.owner) || !is_plain(service.cluster)) {
      return {};  // resolution refuses it as it is
    }
    const std::string whole = service_target(service, service.owner, service.cluster);
    return plain.append(whole, 0, whole.size() - service.trail.size());
  }
  add("clusters", nullptr);
  plain += '/';
  if (out.cluster == "*" || is_workspace_path(out.cluster)) {
    plain += out.cluster;
  } else {
    plain += cluster;
  }
  return plain;
}

}  // namespace

RequestTarget parse_target(std::string_view method, std::string_view target, TargetRules rules) {
  ++reading_counts.targets;
  RequestTarget out;
  out.query = out.info_end = std::min(target.find('?'), target.size());
  if (target == "*") {  // OPTIONS *
    return out;
  }
  if (out.query > kMostPath || target.size() > kMostTarget) {
    out.fault = TargetFault::kTooLong;
    return out;
  }
  if (!target.starts_with('/')) {
    out.fault = TargetFault::kMalformed;
    out.reason = "malformed path: it does not begin with a slash";
    return out;
  }
  std::string_view cluster;
  read_prefix(target, out, cluster);
  out.escaped = has_escape(target.substr(out.trail, out.query - out.trail));
  read_verb(method, target, rules, out);
  if (rules.opaque_proxy && out.form == TargetForm::kCluster) {
    out.info_end = opaque_rest(target, rules, out);
    out.is_long_running = out.is_long_running || out.info_end != out.query;
  }
  const Scan scan = scan_target(target, out, cluster, rules.shard);
  if (scan.kind != Scan::Kind::kNone) {
    out.fault = TargetFault::kMalformed;
    out.reason = reason_of(scan);
  } else if (scan.nowhere) {
    out.form = TargetForm::kNoService;
  } else if (scan.unclean && !is_nowhere(out, rules)) {
    refuse_unclean(target, rules, out);
  }
  if (has_escape(target.substr(0, out.trail)) &&
      (out.form == TargetForm::kCluster || out.form == TargetForm::kService)) {
    out.plain_prefix = plain_prefix_of(cluster, out);
  }
  return out;
}

RequestInfo request_info_of(std::string_view method, std::string_view target,
                            const RequestTarget& parsed) {
  if (parsed.info_end == parsed.query) {
    const std::string_view trail = target.substr(parsed.trail);
    return parse_request_info(method, trail.empty() ? std::string_view("/") : trail);
  }
  const std::string_view path = target.substr(parsed.trail, parsed.info_end - parsed.trail);
  return parse_request_info(method, std::string(path) + std::string(target.substr(parsed.query)));
}

std::string canonical_trail(std::string_view trail) {
  const std::size_t query = std::min(trail.find('?'), trail.size());
  const std::string_view path = trail.substr(0, query);
  if (!has_escape(path)) {
    return std::string(trail);
  }
  const std::string plain = decoded(path);
  std::string out;
  for (std::size_t begin = 0; begin <= plain.size();) {
    const std::size_t end = std::min(plain.find('/', begin), plain.size());
    append_segment(out, std::string_view(plain).substr(begin, end - begin));
    if (end < plain.size()) {
      out += '/';
    }
    begin = end + 1;
  }
  return out.append(trail.substr(query));
}

std::string canonical_target(std::string_view target, const RequestTarget& parsed) {
  if (parsed.form == TargetForm::kCluster || parsed.form == TargetForm::kService) {
    return (parsed.plain_prefix.empty() ? std::string(target.substr(0, parsed.trail))
                                        : parsed.plain_prefix) +
           canonical_trail(target.substr(parsed.trail));
  }
  // An escaped slash never makes a word of the front (KK-372).
  std::string plain = canonical_trail(target);
  const RequestTarget again = parse_target("GET", plain);
  const bool same = again.form == parsed.form && again.word == TargetWord::kNone &&
                    parsed.word == TargetWord::kNone && again.cluster == parsed.cluster;
  return same ? std::move(plain) : std::string(target);
}

Error missing_identity(std::string_view resource) {
  return bad_request("invalid resource " + go_quote(resource.substr(0, resource.find(':'))) +
                     ": missing identity");
}

bool is_watch(std::string_view method, std::string_view target) {
  const bool may_be = target.find("watch") != std::string_view::npos || has_escape(target);
  return may_be && parse_target(method, target).is_watch;
}

std::string named_cluster(std::string_view path) {
  Cursor cursor{path};
  while (!cursor.at_end()) {
    if (spells(cursor.next(), "clusters")) {
      return decoded(cursor.next());
    }
  }
  return {};
}

std::string shown_path(std::string_view target) {
  return decoded(target.substr(0, target.find('?')));
}

}  // namespace kintsugi::krm
