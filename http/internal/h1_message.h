#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <tl/expected.hpp>

#include "http/handler.h"
#include "http/session.h"

/// Strict reading of HTTP/1.x messages. Source: RFC 9112. Where that text lets a recipient choose,
/// this one refuses: a message that two parties could read differently is an attack on one of them.
/// Boost.Beast reads the grammar; what it lets pass is refused on top of it (h1_rules.h, and what
/// the functions here say). Cost: one look at each byte of a head to find its end, one by Beast.
namespace kintsugi::http {

/// Why a message cannot be used, as the answer a server gives.
struct H1Fault {
  int status;
  std::string_view message;
};
template <class T>
using H1Result = tl::expected<T, H1Fault>;

/// How the body of a message ends.
struct H1Framing {
  enum class Kind : std::uint8_t { kNone, kLength, kChunked, kUntilClose };
  Kind kind = Kind::kNone;
  std::uint64_t length = 0;  ///< kLength
};

struct H1Request {
  RequestHead head;
  H1Framing framing;
  bool http10 = false;
  bool keep_alive = true;
  bool expects_continue = false;
};

struct H1Response {
  ResponseHead head;
  H1Framing framing;
  bool keep_alive = true;
};

/// Finds the end of a head while it arrives in pieces. Every line must end with CR LF, and none may
/// continue the one before it. Trailers with the line of the last chunk before them end like a
/// head.
class H1HeadScanner {
 public:
  /// `text` starts at the head's first byte each time and only grows.
  /// @returns 0: more is needed; otherwise the head's length with its empty line.
  /// @error 400 a line feed without carriage return, or a line after the first that begins with a
  /// blank
  [[nodiscard]] H1Result<std::size_t> scan(std::string_view text) noexcept;
  void reset() noexcept { *this = H1HeadScanner(); }

 private:
  std::size_t scanned_ = 0;
  std::size_t line_ = 0;
};

/// @param text a whole head as the scanner found it.
/// Fields that `Connection` nominates are removed, so that it cannot take away what a proxy adds
/// later.
[[nodiscard]] H1Result<H1Request> parse_h1_request(std::string_view text,
                                                   const SessionLimits& limits);
/// @param head_request the request was HEAD; @param upgrade it asked for one (then 101 is a final
/// answer).
[[nodiscard]] H1Result<H1Response> parse_h1_response(std::string_view text,
                                                     const SessionLimits& limits, bool head_request,
                                                     bool upgrade);

/// Takes a body out of its framing, piece by piece. Shape: one allocation with the first chunked
/// body, which serves all later ones; a chunk's line costs none. Not to be moved while it reads.
class H1BodyReader {
 public:
  H1BodyReader() noexcept;
  H1BodyReader(const H1BodyReader&) = delete;
  H1BodyReader& operator=(const H1BodyReader&) = delete;
  ~H1BodyReader();
  /// @param limits  of its trailers; must outlive the body
  void start(const H1Framing& framing, const SessionLimits& limits);
  struct Piece {
    std::size_t consumed = 0;  ///< bytes of the input that are used up
    std::string_view data;     ///< body bytes inside the input, may be empty
  };
  /// Reads at most one piece with at most `budget` (> 0) body bytes. No progress (consumed 0)
  /// means: more input.
  /// @error 400 malformed chunk or trailer, 431 trailers too large
  [[nodiscard]] H1Result<Piece> next(std::string_view in, std::size_t budget);
  [[nodiscard]] bool done() const noexcept { return state_ == State::kDone; }
  [[nodiscard]] bool until_close() const noexcept { return state_ == State::kUntilClose; }
  [[nodiscard]] HeaderList& trailers() noexcept { return trailers_; }

 private:
  enum class State : std::uint8_t {
    kDone,
    kLength,
    kUntilClose,
    kChunkLine,
    kChunkData,
    kTrailers
  };
  struct Chunks;  // Beast's parser
  [[nodiscard]] H1Result<std::size_t> read_chunk_line(std::string_view in);
  [[nodiscard]] H1Result<std::size_t> read_trailers(std::string_view in);

  std::unique_ptr<Chunks> chunks_;
  std::uint64_t left_ = 0;  // kLength
  const SessionLimits* limits_ = nullptr;
  std::string text_;            // CR LF of the chunk before, the chunk's line, trailers
  std::size_t line_ = 0;        // bytes of it before the trailers
  std::size_t extensions_ = 0;  // of all chunks so far [bytes]
  H1HeadScanner scanner_;       // of trailers
  State state_ = State::kDone;
  bool after_chunk_ = false;  // text_ begins with the CR LF of a chunk
  HeaderList trailers_;
};

}  // namespace kintsugi::http
