// Generations on simulated hosts, when one thing goes wrong that chance rarely does at the right moment.
#include "job/generations.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <list>
#include <memory>

#include "base/error.h"
#include "job/roster_door.h"
#include "runtime/all.h"
#include "runtime/group.h"
#include "runtime/patience.h"
#include "sim/switch.h"

namespace starling {
namespace {

using namespace std::chrono_literals;

constexpr Channel kModel{30, Purpose::weights, "a model"};

// One that may have no descriptor left to listen with.
class PoorHost : public Host {
 public:
  explicit PoorHost(Host& host) : host_(host) {}

  bool is_poor = false;

  Loop& loop() override { return host_.loop(); }
  Address find(const std::string& name) override { return host_.find(name); }
  std::unique_ptr<Listener> listen(const Address& place, std::uint32_t port) override {
    if (is_poor) throw Error("too many open files");
    return host_.listen(place, port);
  }
  Task<Answer> call(Address to) override { return host_.call(to); }
  std::string describe_way(const Address& to) override { return host_.describe_way(to); }
  void draw(Bytes bytes) override { host_.draw(bytes); }

 private:
  Host& host_;
};

Weather calm() {
  Weather weather;
  weather.least_delay = weather.most_delay = 5ms;
  return weather;
}

Job job_of(int rank, int size) {
  Job job;
  job.rank = rank;
  job.size = size;
  job.rendezvous = "host 0:29400";
  job.secret = "a secret";
  job.timeout = 60s;
  job.encryption.links = Encryption::Links::none;
  return job;
}

Council::Rules patient_rules() {
  Council::Rules rules;
  rules.patience = 8s;
  rules.wait = 600s;
  return rules;
}

// Processes of a job, a host each.
class Together : public ::testing::Test {
 protected:
  struct Process {
    Process(Host& own, Job job)
        : host(own), generations(host, std::move(job), patient_rules(), Member::Role::worker) {}
    PoorHost host;
    Generations generations;
    bool is_in = false;
  };

  void begin(int size) {
    std::vector<Task<>> beginning;
    for (int rank = 0; rank < size; ++rank) {
      processes_.push_back(std::make_unique<Process>(hub_.host(rank), job_of(rank, size)));
      beginning.push_back(process(rank).generations.begin());
    }
    loop_.run(all(std::move(beginning)));
  }
  Process& process(int host) { return *processes_[static_cast<std::size_t>(host)]; }
  Generations& job(int host) { return process(host).generations; }
  void kill(int host) {
    hub_.kill(host);
    going_on_[static_cast<std::size_t>(host)].reset();
    processes_[static_cast<std::size_t>(host)].reset();
  }

  // All go on to the next generation, as if an exchange had failed.
  void go_on(int size) {
    going_on_.resize(static_cast<std::size_t>(size));
    for (int host = 0; host < size; ++host) {
      going_on_[static_cast<std::size_t>(host)] = std::make_unique<Running>(go_on(process(host)));
    }
  }
  static Task<> go_on(Process& process) {
    process.is_in = false;
    Task<bool> next = process.generations.next();
    process.is_in = co_await next;
  }
  void pass(Time time) { loop_.run(sleep_until(loop_, loop_.now() + time)); }

  SimLoop loop_;
  Switch hub_{loop_, 4, 1, calm()};
  std::vector<std::unique_ptr<Process>> processes_;
  std::vector<std::unique_ptr<Running>> going_on_;
};

// It is missed at once by those who wait for it.
TEST_F(Together, OneWhoDiesOnItsWayToAGenerationKeepsTheOthersForAMoment) {
  for (const int victim : {0, 1, 2}) {
    begin(3);
    go_on(3);
    while (job(victim).council().roster().generation < 2) pass(1ms);
    kill(victim);
    const Time killed = loop_.now();
    const auto others_are_in = [&] {
      for (int host = 0; host < 3; ++host) {
        if (host == victim) continue;
        if (!process(host).is_in || job(host).roster().generation < 3) return false;
      }
      return true;
    };
    while (!others_are_in() && loop_.now() < killed + 30s) pass(10ms);
    EXPECT_LT(loop_.now() - killed, 4s) << victim;
    going_on_.clear();
    for (int host = 0; host < 3; ++host) hub_.kill(host);
    processes_.clear();
  }
}

TEST_F(Together, OneWithoutADescriptorLeftIsBackWhenItHasOne) {
  begin(2);
  process(1).host.is_poor = true;
  go_on(2);
  pass(20s);
  EXPECT_FALSE(process(1).is_in);
  process(1).host.is_poor = false;
  pass(60s);
  EXPECT_TRUE(process(0).is_in);
  EXPECT_TRUE(process(1).is_in);
  EXPECT_EQ(job(0).roster(), job(1).roster());
}

Task<> keep(Task<Host::Answer> calling, std::unique_ptr<Link>& link) {
  Host::Answer answer = co_await calling;
  link = std::move(answer.link);
}

// A thousand who say nothing: they are let in at a pace, and a member's question is answered.
TEST(RosterDoorTest, ACrowdIsPacedAndKeepsNoMemberOut) {
  constexpr int kStrangers = 1000;
  SimLoop loop;
  Switch hub(loop, 3, 1, calm());
  Host& own = hub.host(0);
  RosterDoor door(own, job_of(0, 2), own.listen({}, 7000));
  door.open([](const Message& question, const Address&) { return question; });
  RosterDoor other(hub.host(1), job_of(1, 2), hub.host(1).listen({}, 0));
  const Address address = own.find("host 0:7000");
  const auto ask = [&] { return loop.run(other.ask(address, {}, 60s)).message.has_value(); };
  ASSERT_TRUE(ask());

  std::list<std::unique_ptr<Link>> strangers;
  std::list<Running> calling;
  for (int i = 0; i < kStrangers; ++i) {
    std::unique_ptr<Link>& link = strangers.emplace_back();
    calling.emplace_back(keep(hub.host(2).call(address), link));
  }
  loop.run(sleep_until(loop, loop.now() + 100ms));
  int hung_up_on = 0;
  for (const auto& link : strangers) {
    if (link && !link->signs_of_life().established) ++hung_up_on;
  }
  EXPECT_EQ(hung_up_on, 0);  // it has had the time to look at a hundred, and has room for more
  const Time asked = loop.now();
  EXPECT_TRUE(ask());
  EXPECT_LT(loop.now() - asked, 5s);
  door.close();
}

Task<> join(Host& host, Job job, std::optional<Membership>& into) {
  Task<Membership> joining = join_task(host, std::move(job));
  into.emplace(co_await joining);
}
Task<> send(Group group, Bytes bytes) { co_await group.send(1, kModel, bytes); }
Task<> receive(Group group, Bytes bytes) { co_await group.receive(0, kModel, bytes); }

// Whoever only sends hears nothing meanwhile.
TEST(Patience, LastsForAsLongAsAnythingMoves) {
  SimLoop loop;
  Faults faults;
  faults.slow_links.push_back({{0s, 1000s}, 0, 1, 20'000});
  Weather weather = calm();
  weather.capacity_bytes = 4096;
  Switch hub(loop, 2, 1, weather, faults);
  std::optional<Membership> sender, receiver;
  std::vector<Task<>> joining;
  joining.push_back(join(hub.host(0), job_of(0, 2), sender));
  joining.push_back(join(hub.host(1), job_of(1, 2), receiver));
  loop.run(all(std::move(joining)));

  std::vector<std::byte> model(1'000'000), received(model.size());
  const Time begun = loop.now();
  std::vector<Task<>> moving;
  moving.push_back(
      with_patience(sender->comm(), 5s, "sending", send(Group(sender->comm()), model)));
  moving.push_back(
      with_patience(receiver->comm(), 5s, "receiving", receive(Group(receiver->comm()), received)));
  loop.run(all(std::move(moving)));
  EXPECT_GT(loop.now() - begun, 30s);
}

}  // namespace
}  // namespace starling
