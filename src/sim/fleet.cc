#include "sim/fleet.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "runtime/race.h"

namespace starling {

Fleet::Fleet(int hosts, Faults faults, Weather weather)
    : faults_(std::move(faults)),
      hub_(loop_, hosts, faults_.seed, weather, faults_),
      news_(loop_),
      processes_(static_cast<std::size_t>(hosts)) {}

Fleet::~Fleet() = default;

std::vector<Fleet::Life> Fleet::run(Program program, Time deadline) {
  program_ = std::move(program);
  plan_faults();
  for (int host = 0; host < hub_.size(); ++host) start(host);
  Task<int> contest = race(until_over(), sleep_until(loop_, deadline));
  loop_.run(std::move(contest));
  return lives_;
}

void Fleet::plan_faults() {
  for (const auto& [host, at] : faults_.crashes) {
    loop_.at(at, [this, host = host] { crash(host); });
  }
  for (const auto& [host, at] : faults_.leaves) {
    loop_.at(at, [this, host = host] {
      process(host).was_told_to_leave = true;
      hub_.host(host).tell_to_leave();
    });
  }
  for (const auto& [host, at] : faults_.restarts) {
    ++restarts_left_;
    loop_.at(at, [this, host = host] {
      --restarts_left_;
      restart(host);
      news_.ring();
    });
  }
}

void Fleet::start(int host) {
  Process& process = this->process(host);
  process.running.reset();
  process.was_told_to_leave = process.starts_anew = false;
  process.life = lives_.size();
  hub_.host(host).start_anew();
  lives_.push_back({host, hub_.host(host).life(), loop_.now()});
  process.running = std::make_unique<Running>(live(host));
}

Task<> Fleet::live(int host) {
  std::exception_ptr error;
  try {
    Task<int> contest = race(program_(hub_.host(host)), fail_when_told(host));
    co_await contest;
  } catch (...) {
    error = std::current_exception();
  }
  end(host, error ? Life::End::failed : Life::End::done, error);
}

Task<> Fleet::fail_when_told(int host) {
  Time next = Time::max();
  for (const auto& [rank, at] : faults_.failures) {
    if (rank == host && at >= loop_.now()) next = std::min(next, at);
  }
  co_await sleep_until(hub_.host(host).loop(), next);
  throw Error(fmt::format("host {} fails, as it was told to", host));
}

void Fleet::end(int host, Life::End how, std::exception_ptr error) {
  Life& ended = life(host);
  ended.until = loop_.now();
  ended.end = how;
  ended.error = std::move(error);
  if (process(host).starts_anew) {
    loop_.at(loop_.now(), [this, host] { start(host); });
  }
  news_.ring();
}

// First the kernel, so that no last word of what is destroyed gets through.
void Fleet::crash(int host) {
  if (life(host).end != Life::End::none) return;
  hub_.kill(host);
  process(host).running.reset();
  end(host, Life::End::crashed);
}

// As a launcher does it: who has ended well, and was not told to, is not started again.
void Fleet::restart(int host) {
  if (life(host).end == Life::End::none) {
    process(host).starts_anew = process(host).was_told_to_leave;
  } else if (life(host).end != Life::End::done || process(host).was_told_to_leave) {
    start(host);
  }
}

bool Fleet::is_over() const {
  return restarts_left_ == 0 && std::ranges::all_of(processes_, [this](const Process& process) {
           return lives_[process.life].end != Life::End::none && !process.starts_anew;
         });
}

Task<> Fleet::until_over() {
  while (!is_over()) co_await news_.rung();
}

}  // namespace starling
