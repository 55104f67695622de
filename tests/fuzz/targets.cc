#include <array>

#include "tests/fuzz/fuzz.h"

namespace starling {

namespace {
constexpr std::array kTargets = {
    FuzzTarget{"checkpoints", fuzz_checkpoints},
    FuzzTarget{"codecs", fuzz_codecs},
    FuzzTarget{"frames", fuzz_frames},
    FuzzTarget{"graph_file", fuzz_graph_file},
    FuzzTarget{"handshake", fuzz_handshake},
    FuzzTarget{"http", fuzz_http},
    FuzzTarget{"idx", fuzz_idx},
    FuzzTarget{"letters", fuzz_letters},
    FuzzTarget{"recordings", fuzz_recordings},
    FuzzTarget{"roster", fuzz_roster},
    FuzzTarget{"safetensors", fuzz_safetensors},
    FuzzTarget{"server", fuzz_server},
    FuzzTarget{"settings", fuzz_settings},
};
}  // namespace

std::span<const FuzzTarget> fuzz_targets() { return kTargets; }

}  // namespace starling
