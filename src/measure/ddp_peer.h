// PyTorch DDP over gloo, the peer in training: bench/peers/ddp_train.py, one process a worker.
#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <string>

#include "job/run_summary.h"
#include "launch/launcher.h"
#include "strategy/settings.h"

namespace starling {

inline constexpr const char* kDdpProgram = "starling-peer-ddp";

// Why it cannot take part in a training, in half a sentence; empty if it can.
std::string why_not_by_ddp(const Settings& settings);

// Trains as the settings say, but for how workers exchange: on the plan's lab if it names one. Throws
// Error if it fails.
RunSummary train_by_ddp(const Settings& settings, LaunchPlan plan,
                        const std::function<void(const nlohmann::json&)>& on_evaluation);

}  // namespace starling
