#include "aggregation/bytes/json_list.h"

#include <charconv>

namespace kintsugi::aggregation {
namespace {

constexpr std::size_t kMaxEnvelope = 1U << 20;

bool is_space(char c) noexcept { return c == ' ' || c == '\n' || c == '\r' || c == '\t'; }

}  // namespace

bool ListSplitter::finish_member() {
  if (key_is(key_, "kind")) {
    envelope_.kind = plain_string(value_).value_or(std::string_view());
  } else if (key_is(key_, "apiVersion")) {
    envelope_.api_version = plain_string(value_).value_or(std::string_view());
  } else if (key_is(key_, "columnDefinitions")) {
    envelope_.columns = value_ == "null" ? std::string() : value_;
  } else if (key_is(key_, "metadata") && value_.front() == '{') {
    MemberWalk walk(value_);
    while (const auto member = walk.next()) {
      if (key_is(member->key, "resourceVersion")) {
        envelope_.resource_version = string_value(member->value).value_or("");
      } else if (key_is(member->key, "continue")) {
        envelope_.continue_token = string_value(member->value).value_or("");
      } else if (key_is(member->key, "remainingItemCount")) {
        std::int64_t count = 0;
        const std::string_view digits = member->value;
        if (std::from_chars(digits.data(), digits.data() + digits.size(), count).ec ==
            std::errc()) {
          envelope_.remaining = count;
        }
      } else if (key_is(member->key, "shardInfo")) {
        envelope_.shard_info = member->value;
      }
    }
    if (walk.broken()) {
      return false;
    }
  }
  key_.clear();
  value_.clear();
  state_ = State::kCommaOrEnd;
  return true;
}

void ListSplitter::begin(State state, char first) {
  value_.clear();
  scan_.reset();
  escaped_ = false;
  state_ = state;
  if (state == State::kInString) {
    value_ += first;
  }
}

ListSplitter::Fault ListSplitter::feed(std::string_view bytes,
                                       const std::function<void(std::string_view)>& take) {
  std::size_t at = 0;
  const auto is_list_key = [this] { return key_is(key_, "items") || key_is(key_, "rows"); };
  while (at < bytes.size()) {
    const char c = bytes[at];
    const bool inside = state_ == State::kInKey || state_ == State::kInString ||
                        state_ == State::kInScalar || state_ == State::kInContainer ||
                        state_ == State::kInItem;
    if (!inside && is_space(c)) {
      ++at;
      continue;
    }
    switch (state_) {
      case State::kStart:
        if (c != '{') {
          return Fault::kMalformed;
        }
        state_ = State::kKeyOrEnd;
        ++at;
        break;
      case State::kKeyOrEnd:
        if (c == '}') {
          state_ = State::kEnd;
          ++at;
          break;
        }
        [[fallthrough]];
      case State::kKey:
        if (c != '"') {
          return Fault::kMalformed;
        }
        key_.clear();
        escaped_ = false;
        state_ = State::kInKey;
        ++at;
        break;
      case State::kInKey:
        ++at;
        if (c == '"' && !escaped_) {
          state_ = State::kColon;
          break;
        }
        escaped_ = c == '\\' && !escaped_;
        key_ += c;
        if (key_.size() > kMaxEnvelope) {
          return Fault::kTooLarge;
        }
        break;
      case State::kColon:
        if (c != ':') {
          return Fault::kMalformed;
        }
        state_ = State::kValue;
        ++at;
        break;
      case State::kValue:
        if (c == '[' && is_list_key()) {
          state_ = State::kItemOrEnd;
          items_begun_ = true;
          ++at;
        } else if (c == '{' || c == '[') {
          begin(State::kInContainer, c);
        } else if (c == '"') {
          begin(State::kInString, c);
          ++at;
        } else {
          begin(State::kInScalar, c);
        }
        break;
      case State::kInContainer: {
        const std::size_t used = scan_.feed(bytes.substr(at));
        value_ += bytes.substr(at, used);
        at += used;
        if (value_.size() > kMaxEnvelope) {
          return Fault::kTooLarge;
        }
        if (scan_.done() && !finish_member()) {
          return Fault::kMalformed;
        }
        break;
      }
      case State::kInString:
        ++at;
        value_ += c;
        if (value_.size() > kMaxEnvelope) {
          return Fault::kTooLarge;
        }
        if (c == '"' && !escaped_) {
          if (!finish_member()) {
            return Fault::kMalformed;
          }
          break;
        }
        escaped_ = c == '\\' && !escaped_;
        break;
      case State::kInScalar:
        if (c == ',' || c == '}' || is_space(c)) {
          if (value_.empty() || !finish_member()) {
            return Fault::kMalformed;
          }
          break;
        }
        value_ += c;
        if (value_.size() > kMaxEnvelope) {
          return Fault::kTooLarge;
        }
        ++at;
        break;
      case State::kCommaOrEnd:
        if (c != ',' && c != '}') {
          return Fault::kMalformed;
        }
        state_ = c == ',' ? State::kKey : State::kEnd;
        ++at;
        break;
      case State::kItemOrEnd:
        if (c == ']') {
          key_.clear();
          state_ = State::kCommaOrEnd;
          ++at;
          break;
        }
        [[fallthrough]];
      case State::kItem:
        if (c != '{') {
          return Fault::kMalformed;
        }
        begin(State::kInItem, c);
        break;
      case State::kInItem: {
        const std::string_view rest = bytes.substr(at);
        const std::size_t used = scan_.feed(rest);
        if (value_.size() + used > max_item_) {
          return Fault::kTooLarge;
        }
        at += used;
        if (!scan_.done()) {
          value_ += rest;
          break;
        }
        if (value_.empty()) {
          take(rest.substr(0, used));
        } else {
          value_ += rest.substr(0, used);
          take(value_);
          value_.clear();
        }
        state_ = State::kItemCommaOrEnd;
        break;
      }
      case State::kItemCommaOrEnd:
        if (c == ',') {
          state_ = State::kItem;
        } else if (c == ']') {
          key_.clear();
          state_ = State::kCommaOrEnd;
        } else {
          return Fault::kMalformed;
        }
        ++at;
        break;
      case State::kEnd:
        return Fault::kMalformed;
    }
  }
  return Fault::kNone;
}

}  // namespace kintsugi::aggregation
