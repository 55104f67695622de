#include "measure/live_view.h"

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string_view>

#include "base/error.h"

namespace starling {

namespace {

std::string live_token() {
  const char* chosen = std::getenv("STARLING_LIVE_TOKEN");
  if (chosen == nullptr) return make_secret();
  if (std::string_view(chosen).size() < 16) {
    throw Error("STARLING_LIVE_TOKEN has fewer than 16 characters",
                "make one with `openssl rand -hex 16`, or leave it out to get one");
  }
  return chosen;
}

}  // namespace

LiveView::LiveView(const TrainingPlan& plan, bool own_program, RunBar& bar) {
  if (!plan.live) return;
  const Settings& settings = plan.settings;
  const bool is_named = plan.label != name_of(settings.strategy);
  nlohmann::json shown = {{"system", is_named ? plan.label : ""},
                          {"strategy", name_of(settings.strategy)},
                          {"workers", settings.workers},
                          {"servers", plan.launch.servers}};
  if (own_program) {  // what it trains on what is its own affair
    shown["program"] = std::filesystem::path(plan.launch.command[0]).filename().string();
  } else {
    shown.update({{"model", settings.train.model},
                  {"data", name_of(settings.train.data)},
                  {"epochs", settings.train.epochs},
                  {"batch", settings.train.batch},
                  {"lr", settings.optimizer.lr}});
  }
  run_.emplace(LiveRun::About{.name = plan.run_folder.empty() ? plan.label
                                                              : plan.run_folder.filename().string(),
                              .workers = settings.workers,
                              .servers = plan.launch.servers,
                              .settings = shown},
               [begin = std::chrono::steady_clock::now()] {
                 const auto now = std::chrono::steady_clock::now();
                 return std::chrono::duration<double>(now - begin).count();
               });
  server_.emplace(*plan.live, live_token(), *run_);
  bar.say("live page: " + server_->url());
  if (const std::string fingerprint = server_->fingerprint(); !fingerprint.empty()) {
    bar.say("its certificate is of its own making; a browser will ask. SHA-256: " + fingerprint);
  }
}

}  // namespace starling
