// What a run is resumed from: lists of checkpoints, and the states of ranks behind their hashes.
#include <cstring>
#include <stdexcept>

#include "base/error.h"
#include "base/state.h"
#include "job/checkpoint.h"
#include "job/past.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/memory_file.h"

namespace starling {

namespace {

void read_list(ConstBytes input) {
  const MemoryFile file(input);
  const Manifest manifest = read_manifest(file.path());
  const std::string text = as_text(manifest);
  const MemoryFile written(std::as_bytes(std::span(text)));
  if (!(read_manifest(written.path()) == manifest)) {
    throw std::logic_error("a list changes when it is written and read");
  }
}

// Each behind two bytes that say how long it is.
void put_states_together(Pieces pieces) {
  MergedPast past;
  while (!pieces.empty()) {
    const std::size_t low = pieces.number(), high = pieces.number();
    const Snapshot snapshot = decode_snapshot(pieces.take(low + 256 * high));
    if (!(decode_snapshot(encode(snapshot)) == snapshot)) {
      throw std::logic_error("a state changes when it is written and read");
    }
    past.add(snapshot);
  }
  past.result();
}

}  // namespace

void fuzz_checkpoints(ConstBytes input) {
  Pieces pieces(input);
  try {
    if (pieces.number() == '{') {
      read_list(input);
    } else {
      put_states_together(pieces);
    }
  } catch (const Error&) {
  }
}

}  // namespace starling
