// What libFuzzer calls: starling-fuzz NAME [its own flags] corpus/NAME.
#include <spdlog/spdlog.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "tests/fuzz/fuzz.h"

namespace {
void (*run)(starling::ConstBytes) = nullptr;
}  // namespace

extern "C" int LLVMFuzzerInitialize(int* argc, char*** argv) {
  for (const starling::FuzzTarget& each : starling::fuzz_targets()) {
    if (*argc > 1 && std::string_view((*argv)[1]) == each.name) run = each.run;
  }
  if (run == nullptr) {
    std::fprintf(stderr,
                 "usage: starling-fuzz NAME [flags of libFuzzer] [corpus]; NAME is one of\n");
    for (const starling::FuzzTarget& each : starling::fuzz_targets())
      std::fprintf(stderr, "  %s\n", each.name);
    std::exit(2);
  }
  std::rotate(*argv + 1, *argv + 2, *argv + *argc);  // libFuzzer takes it for a corpus
  --*argc;
  (*argv)[*argc] = nullptr;
  spdlog::set_level(spdlog::level::off);
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  run(std::as_bytes(std::span(data, size)));
  return 0;
}
