#include "sim/switch.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstdio>
#include <ostream>

#include "base/error.h"

namespace starling {

namespace {

constexpr Time kKeepAlive = std::chrono::seconds(5);  // as net/tcp_link.cc asks of the kernel
constexpr Time kCallAgain = std::chrono::seconds(1);  // as a kernel does when nobody answers
constexpr std::size_t kHostByte = 15;                 // of an address, which ends with the number

}  // namespace

std::ostream& operator<<(std::ostream& out, const Weather& weather) {
  const auto microseconds = [](Time time) {
    return std::chrono::duration_cast<std::chrono::microseconds>(time).count();
  };
  return out << fmt::format("delays of {} to {} us, {:.0f} % short transfers, links of {} bytes",
                            microseconds(weather.least_delay), microseconds(weather.most_delay),
                            100 * weather.short_share, weather.capacity_bytes);
}

Switch::Switch(SimLoop& loop, int hosts, std::uint64_t seed, Weather weather, Faults faults)
    : loop_(loop), random_{seed}, weather_(weather), faults_(std::move(faults)) {
  for (int number = 0; number < hosts; ++number) {
    hosts_.push_back(std::make_unique<SimHost>(*this, number, random_.bits()));
  }
  plan_faults();
}

void Switch::plan_faults() {
  for (const auto& [rank, millionths] : faults_.drifts) host(rank).loop().set_drift(millionths);
  for (const Faults::Pause& pause : faults_.pauses) {
    loop_.at(pause.from, [this, &pause] { stop(pause.rank); });
    loop_.at(pause.until, [this, &pause] { go_on(pause.rank); });
  }
  for (const Faults::Partition& partition : faults_.partitions) {
    for (int from = 0; from < size(); ++from) {
      for (int to = 0; to < size(); ++to) {
        if (!partition.cuts(from, to)) continue;
        loop_.at(partition.from, [this, from, to] { cut(from, to); });
        loop_.at(partition.until, [this, from, to] {
          if (!is_to_be_cut(from, to)) mend(from, to);
        });
      }
    }
  }
}

Switch::~Switch() = default;

void Switch::note(const Event& event) {
  for (const std::uint64_t word :
       {static_cast<std::uint64_t>(loop_.now().count()), static_cast<std::uint64_t>(event.kind),
        static_cast<std::uint64_t>(event.wire * 2 + event.end), event.bytes}) {
    trace_ = (std::rotl(trace_, 5) ^ word) * 0x9e3779b97f4a7c15;
  }
}

// By the faults, now.
bool Switch::is_to_be_cut(int from, int to) const {
  return std::ranges::any_of(faults_.partitions, [&](const Faults::Partition& each) {
    return each.cuts(from, to) && each.from <= loop_.now() && loop_.now() < each.until;
  });
}

Time Switch::draw_delay(int from, int to) {
  const auto span = weather_.most_delay - weather_.least_delay;
  return weather_.least_delay + Time(random_.below(static_cast<std::uint64_t>(span.count()) + 1)) +
         faults_.delay(from, to, loop_.now());
}

Time Switch::transfer_time(int from, int to, std::size_t bytes) const {
  const double rate = faults_.bytes_per_second(from, to, loop_.now());
  return std::chrono::round<Time>(std::chrono::duration<double>(static_cast<double>(bytes) / rate));
}

bool Switch::is_stopped(int host) const {
  return hosts_[static_cast<std::size_t>(host)]->loop_.is_stopped();
}

// Every order of magnitude alike, so that long messages end some day.
std::size_t Switch::shorten(std::size_t bytes) {
  if (weather_.short_share == 0 || random_.uniform() >= weather_.short_share) return bytes;
  const std::uint64_t most = std::uint64_t{1} << random_.below(std::bit_width(bytes));
  return std::min<std::size_t>(bytes, 1 + random_.below(most));
}

std::shared_ptr<Wire> Switch::connect(int from, int to) {
  const int number = static_cast<int>(wires_.size());
  auto wire = std::make_shared<Wire>(*this, number, from, to, weather_.capacity_bytes);
  wires_.push_back(wire);
  note({'o', number, to, 0});
  return wire;
}

template <class Action>
void Switch::for_each_wire(const Action& action) {
  for (std::size_t i = 0; i < wires_.size(); ++i) {
    if (const auto wire = wires_[i].lock()) action(*wire);
  }
}

void Switch::cut(int from, int to) {
  const auto [cut, is_new] = cuts_.emplace(std::pair(from, to), loop_.now());
  if (!is_new) return;
  loop_.at(loop_.now() + kKeepAlive, [this, from, to, since = loop_.now()] {
    const auto found = cuts_.find({from, to});
    if (found == cuts_.end() || found->second != since) return;
    for_each_wire([&](Wire& wire) {
      const std::pair ends(wire.host(0), wire.host(1));
      if (ends == std::pair(from, to) || ends == std::pair(to, from)) wire.time_out();
    });
  });
}

void Switch::mend(int from, int to) {
  cuts_.erase({from, to});
  for_each_wire([&](Wire& wire) {
    for (int end : {0, 1}) {
      if (wire.host(end) == from && wire.host(1 - end) == to) wire.mend(end);
    }
  });
}

void Switch::kill(int number) {
  host(number).doors_.clear();
  for_each_wire([&](Wire& wire) {
    for (int end : {0, 1}) {
      if (wire.host(end) == number) wire.close(end);
    }
  });
}

void Switch::vanish(int number) {
  for (int other = 0; other < size(); ++other) {
    if (other == number) continue;
    cut(number, other);
    cut(other, number);
  }
}

void Switch::stop(int number) { host(number).loop().stop(); }

void Switch::go_on(int number) {
  host(number).loop().go_on();
  for_each_wire([&](Wire& wire) {
    for (int end : {0, 1}) {
      if (wire.host(end) == number) wire.wake(end);
    }
  });
}

// Where others call: one that is destroyed, or whose host is killed, refuses.
class SimHost::Door : public Listener {
 public:
  Door(SimHost& host, std::uint32_t port) : host_(host), port_(port), called_(host.loop()) {
    host_.doors_.emplace(port, this);
  }
  ~Door() override { host_.doors_.erase(port_); }

  std::uint32_t port() const override { return port_; }

  Task<Caller> accept() override {
    while (callers_.empty()) co_await called_.rung();
    Caller first = std::move(callers_.front());
    callers_.pop_front();
    co_return std::move(first);
  }

  void come(Caller caller) {
    callers_.push_back(std::move(caller));
    called_.ring();
  }

 private:
  SimHost& host_;
  std::uint32_t port_;
  std::deque<Caller> callers_;
  Bell called_;
};

Address SimHost::address(std::uint32_t port) const {
  Address address{{}, port};
  address.ip[0] = 0xfd;
  address.ip[kHostByte] = static_cast<unsigned char>(number_);
  return address;
}

Address SimHost::find(const std::string& name) {
  int number = -1;
  std::uint32_t port = 0;
  if (std::sscanf(name.c_str(), "host %d:%u", &number, &port) != 2 || number < 0 ||
      number >= hub_.size()) {
    throw Error(fmt::format("there is no '{}' on this switch", name));
  }
  return hub_.host(number).address(port);
}

std::unique_ptr<Listener> SimHost::listen(const Address&, std::uint32_t port) {
  if (port == 0) port = ++last_port_;
  if (doors_.contains(port)) throw Error(fmt::format("port {} of host {} is taken", port, number_));
  return std::make_unique<Door>(*this, port);
}

std::string SimHost::describe_way(const Address& to) {
  return fmt::format("host {} from host {}", to.ip[kHostByte], number_);
}

Task<Host::Answer> SimHost::call(Address to) {
  SimHost& other = hub_.host(to.ip[kHostByte]);
  co_await sleep_until(loop(), loop().now() + hub_.draw_delay(number_, other.number_));
  while (hub_.is_cut_between(number_, other.number_)) {
    co_await sleep_until(loop(), loop().now() + kCallAgain);
  }
  Answer answer;
  const auto door = other.doors_.find(to.port);
  if (door == other.doors_.end()) {
    answer.refused = true;
    answer.why = std::make_error_code(std::errc::connection_refused).message();
  } else {
    const auto wire = hub_.connect(number_, other.number_);
    answer.link = std::make_unique<SimLink>(wire, 0);
    door->second->come({std::make_unique<SimLink>(wire, 1), address(last_port_)});
  }
  co_await sleep_until(loop(), loop().now() + hub_.draw_delay(other.number_, number_));
  co_return std::move(answer);
}

Task<> SimHost::told_to_leave() {
  while (!is_to_leave_) co_await leave_.rung();
}

void SimHost::tell_to_leave() {
  is_to_leave_ = true;
  leave_.ring();
}

void SimHost::start_anew() {
  ++life_;
  is_to_leave_ = false;
  loop_.start_anew();
}

void SimHost::draw(Bytes bytes) {
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random_.bits());
}

}  // namespace starling
