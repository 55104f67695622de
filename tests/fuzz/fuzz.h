// Fuzzers: bytes from anybody, given to all that reads bytes from anybody. One function a target, each
// in the file of its name. A target catches Error, which is how we refuse; anything else that is thrown,
// and whatever the sanitizers find, is a bug. What was found stands in corpus/NAME/ and is run with the
// other tests (replay_test.cc); `make fuzz` looks for more (fuzz_main.cc).
#pragma once

#include <algorithm>
#include <span>
#include <string>

#include "base/bytes.h"

namespace starling {

struct FuzzTarget {
  const char* name;
  void (*run)(ConstBytes input);
};
std::span<const FuzzTarget> fuzz_targets();

void fuzz_checkpoints(ConstBytes input);
void fuzz_codecs(ConstBytes input);
void fuzz_frames(ConstBytes input);
void fuzz_graph_file(ConstBytes input);
void fuzz_handshake(ConstBytes input);
void fuzz_http(ConstBytes input);
void fuzz_idx(ConstBytes input);
void fuzz_letters(ConstBytes input);
void fuzz_recordings(ConstBytes input);
void fuzz_roster(ConstBytes input);
void fuzz_safetensors(ConstBytes input);
void fuzz_server(ConstBytes input);
void fuzz_settings(ConstBytes input);

// The input, piece by piece; zeros behind its end.
class Pieces {
 public:
  explicit Pieces(ConstBytes input) : left_(input) {}

  bool empty() const { return left_.empty(); }
  unsigned number() {  // below 256
    return left_.empty() ? 0 : std::to_integer<unsigned>(take(1)[0]);
  }
  ConstBytes take(std::size_t bytes) {
    const ConstBytes piece = left_.first(std::min(bytes, left_.size()));
    left_ = left_.subspan(piece.size());
    return piece;
  }
  ConstBytes rest() { return take(left_.size()); }

 private:
  ConstBytes left_;
};

inline std::string text_of_bytes(ConstBytes bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace starling
