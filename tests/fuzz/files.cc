// Files that users bring: graphs, data sets, weights, settings, recordings.
#include <unistd.h>

#include <fstream>

#include "base/error.h"
#include "job/timeline_file.h"
#include "report/recorded_pipeline.h"
#include "strategy/settings.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/memory_file.h"
#include "topology/graph_file.h"
#include "train/idx.h"
#include "train/safetensors.h"

namespace starling {

void fuzz_graph_file(ConstBytes input) {
  Pieces pieces(input);
  const int size = 1 + static_cast<int>(pieces.number() % 16);
  try {
    parse_graph(text_of_bytes(pieces.rest()), "a file", size);
  } catch (const Error&) {
  }
}

void fuzz_idx(ConstBytes input) {
  Pieces pieces(input);
  const std::size_t dimensions = 1 + pieces.number() % 4;
  const MemoryFile file(pieces.rest());
  try {
    read_idx(file.path(), dimensions);
  } catch (const Error&) {
  }
}

void fuzz_safetensors(ConstBytes input) {
  const MemoryFile file(input);
  try {
    read_safetensors(file.path());
  } catch (const Error&) {
  }
}

void fuzz_settings(ConstBytes input) {
  Settings settings;
  try {
    read_settings(text_of_bytes(input), "a file", settings);
    check_settings(settings);
  } catch (const Error&) {
    return;
  }
  Settings again;
  read_settings(write_settings(settings), "what was written", again);
  if (write_settings(again) != write_settings(settings)) {
    throw std::logic_error("settings change when they are written and read");
  }
}

// A run's folder, whose timeline is the input.
void fuzz_recordings(ConstBytes input) {
  static const std::filesystem::path folder = [] {
    char name[] = "/tmp/starling-fuzz-XXXXXX";
    const std::filesystem::path made = mkdtemp(name);
    std::ofstream(made / "settings.toml") << "workers = 2\npipeline = 2\n";
    return made;
  }();
  std::ofstream(folder / "timeline.json", std::ios::binary) << text_of_bytes(input);
  try {
    read_pipeline(folder);
  } catch (const Error&) {
  }
  // What a worker has written, perhaps to its end.
  std::ofstream(folder / "timeline-part-0.1", std::ios::binary) << text_of_bytes(input);
  try {
    join_timeline(folder);
  } catch (const Error&) {
  }
}

}  // namespace starling
