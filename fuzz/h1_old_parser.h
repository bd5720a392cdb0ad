#pragma once

#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <string_view>

#include "http/internal/h1_message.h"

/// Only for h1_differ_fuzz: the parser of HTTP/1.x that the product had before Boost.Beast, as the
/// oracle of what it has now. Where Beast is stricter the same rule was added here, written anew:
/// `Connection` is a list of tokens, chunk extensions follow their grammar, trailers frame nothing,
/// a folded line is refused as soon as it is there.
namespace kintsugi::fuzz {

class OldHeadScanner {
 public:
  [[nodiscard]] http::H1Result<std::size_t> scan(std::string_view text) noexcept;
  void reset() noexcept { *this = OldHeadScanner(); }

 private:
  std::size_t scanned_ = 0;
  std::size_t line_ = 0;
};

[[nodiscard]] http::H1Result<http::H1Request> parse_old_request(std::string_view text,
                                                                const http::SessionLimits& limits);
[[nodiscard]] http::H1Result<http::H1Response> parse_old_response(std::string_view text,
                                                                  const http::SessionLimits& limits,
                                                                  bool head_request, bool upgrade);

/// Statuses of everything that is wrong with the last head or body, of which a parser may tell any.
[[nodiscard]] const std::set<int>& old_faults();

class OldBodyReader {
 public:
  void start(const http::H1Framing& framing, const http::SessionLimits& limits);
  using Piece = http::H1BodyReader::Piece;
  [[nodiscard]] http::H1Result<Piece> next(std::string_view in, std::size_t budget);
  [[nodiscard]] bool done() const noexcept { return state_ == State::kDone; }
  [[nodiscard]] bool until_close() const noexcept { return state_ == State::kUntilClose; }
  [[nodiscard]] http::HeaderList& trailers() noexcept { return trailers_; }

 private:
  enum class State : std::uint8_t {
    kDone,
    kLength,
    kUntilClose,
    kChunkSize,
    kChunkExtension,
    kChunkData,
    kChunkEnd,
    kTrailers
  };
  [[nodiscard]] http::H1Result<std::size_t> read_chunk_line(std::string_view in);
  [[nodiscard]] http::H1Result<std::size_t> read_trailers(std::string_view in);

  std::uint64_t left_ = 0;
  const http::SessionLimits* limits_ = nullptr;
  std::size_t line_ = 0;        // length of the chunk line so far, or of the trailer line
  std::size_t extensions_ = 0;  // of all chunks so far [bytes]
  std::string extension_;       // of this chunk, without its first semicolon
  bool extended_ = false;
  bool bad_end_ = false;  // the extension of the last chunk
  State state_ = State::kDone;
  bool carriage_return_ = false;
  std::string trailer_text_;
  http::HeaderList trailers_;
};

}  // namespace kintsugi::fuzz
