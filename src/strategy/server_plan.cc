#include "strategy/server_plan.h"

#include "base/check.h"
#include "strategy/mix_plan.h"

namespace starling {

int server_count(const Settings& settings) {
  if (settings.strategy != "server") return 0;
  return settings.servers == 0 ? settings.workers : settings.servers;
}

int server_processes(const Settings& settings) {
  return settings.placement == "apart" ? server_count(settings) : 0;
}

int first_server(const Settings& settings) {
  return settings.placement == "apart" ? settings.workers : 0;
}

int group_size(const Settings& settings) {
  return settings.group == 0 ? settings.workers : settings.group;
}

OptimizerSettings optimizer_settings(const Settings& settings) {
  using Kind = OptimizerSettings::Kind;
  OptimizerSettings optimizer;
  optimizer.kind = settings.optimizer == "nesterov"  ? Kind::nesterov
                   : settings.optimizer == "adagrad" ? Kind::adagrad
                   : settings.optimizer == "adam"    ? Kind::adam
                                                     : Kind::sgd;
  optimizer.lr = settings.lr;
  optimizer.momentum = settings.momentum;
  optimizer.weight_decay = settings.weight_decay;
  return optimizer;
}

namespace {

GateSettings gate_settings(const Settings& settings, int workers) {
  using Kind = GateSettings::Kind;
  GateSettings gate;
  gate.delay_bound = static_cast<std::uint64_t>(settings.delay_bound);
  gate.value_bound = settings.value_bound;
  gate.quorum = settings.quorum > 0 ? settings.quorum : std::max(1, workers - 1);
  gate.kind = settings.gate == "ssp"      ? Kind::ssp
              : settings.gate == "value"  ? Kind::value
              : settings.gate == "quorum" ? Kind::quorum
              : settings.gate == "bsp"    ? Kind::bsp
                                          : Kind::async;  // and epoch, whose clerk is the gate
  return gate;
}

Clerk::Options clerk_options(const Settings& settings) {
  const bool in_step =
      settings.gate == "bsp" || (settings.gate == "ssp" && settings.delay_bound == 0);
  if (in_step) return {Clerk::Mode::own_share, 1};
  if (settings.gate == "epoch") return {Clerk::Mode::until_share, settings.epoch_share};
  return {Clerk::Mode::whoever_is_free, 1};
}

}  // namespace

ServerOptions server_options(const Settings& settings) {
  using Kind = StalenessRule::Kind;
  ServerOptions options;
  options.worker_stride = group_size(settings);
  options.workers = settings.workers / options.worker_stride;
  options.optimizer = optimizer_settings(settings);
  options.gate = gate_settings(settings, options.workers);
  options.staleness.kind = settings.staleness == "scale"        ? Kind::scale
                           : settings.staleness == "compensate" ? Kind::compensate
                                                                : Kind::plain;
  options.staleness.lambda = settings.compensation;
  options.clerk = clerk_options(settings);
  return options;
}

bool survives_losses(const Settings& settings) {
  if (settings.strategy == "ring-leader") return true;
  if (is_mix(settings)) return !mixes_in_step(settings);
  return settings.strategy == "server" && settings.placement == "apart" &&
         group_size(settings) == 1 && !make_gate(server_options(settings).gate)->needs_everybody();
}

bool averages_gradients(const Settings& settings) {
  return settings.strategy == "allreduce" || settings.strategy == "ring-leader" ||
         (settings.strategy == "server" && clerk_options(settings).mode == Clerk::Mode::own_share);
}

}  // namespace starling
