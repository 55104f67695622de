// PyTorch DDP over gloo, the peer in training: bench/peers/ddp_train.py, one process a worker.
#pragma once

#include <functional>
#include <nlohmann/json.hpp>

#include "job/run_summary.h"
#include "launch/launcher.h"
#include "strategy/settings.h"

namespace starling {

inline constexpr const char* kDdpProgram = "starling-peer-ddp";

// Trains as the settings say (workers, batch, epochs, lr, momentum, seed, until, evaluate_every; by
// SGD, on MNIST's classic network), on the plan's lab if it names one, and returns the result.
// Throws Error if it fails.
RunSummary train_by_ddp(const Settings& settings, LaunchPlan plan,
                        const std::function<void(const nlohmann::json&)>& on_evaluation);

}  // namespace starling
