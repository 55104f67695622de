// Letters on links that carry bytes, where one can be lost in the middle of its letter.
#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <vector>

#include "job/join.h"
#include "mixing/letters.h"
#include "runtime/all.h"
#include "runtime/race.h"
#include "sim/switch.h"

namespace starling {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t kHalfLetter = 9'000'000;  // more than short ones may take together

// Three ranks; there is room for one letter at each.
class HalfLetters : public testing::Test {
 protected:
  HalfLetters() : hub_(loop_, 3, 1, {1ms, 1ms}), members_(3), letters_(3) {
    std::vector<Task<>> all_come;
    for (int rank = 0; rank < 3; ++rank) all_come.push_back(come(rank));
    loop_.run(within(loop_, 60s, "joining", all(std::move(all_come))));
    const std::vector<int> ranks = {0, 1, 2};
    for (std::size_t rank = 0; rank < 3; ++rank) {
      const Group group(members_[rank]->comm());
      group.contain_losses();
      letters_[rank] = std::make_unique<Letters>(group, ranks, kHalfLetter, 1);
    }
  }

  Task<> come(int rank) {
    Job job;
    job.rank = rank;
    job.size = 3;
    job.rendezvous = "host 0:29400";
    job.secret = "a secret";
    job.timeout = 20s;
    Task<Membership> joining = join_task(hub_.host(rank), job);
    members_[static_cast<std::size_t>(rank)].emplace(co_await joining);
  }

  void send_to_0(std::size_t from) {
    const std::vector<std::byte> bytes(kHalfLetter);
    letters_[from]->send(0, {}, letters_[from]->write(bytes));
  }
  void wait(Time time) { loop_.run(sleep_until(loop_, loop_.now() + time)); }
  std::uint64_t received_from(int rank) {
    return members_[0]->comm().ledger().total_with(rank, Direction::received).wire;
  }
  void lose(std::size_t rank) {
    hub_.kill(static_cast<int>(rank));
    letters_[rank].reset();
    members_[rank].reset();
  }

  SimLoop loop_;
  Switch hub_;
  std::vector<std::optional<Membership>> members_;
  std::vector<std::unique_ptr<Letters>> letters_;
};

TEST_F(HalfLetters, TakeNoRoomOnceTheirWriterIsLost) {
  send_to_0(2);
  while (received_from(2) < kHalfLetter / 2) wait(1ms);
  ASSERT_LT(received_from(2), kHalfLetter) << "it is under way";
  lose(2);
  send_to_0(1);
  wait(60s);
  std::vector<int> writers;
  letters_[0]->read_all([&](const Letter& letter) {
    writers.push_back(letter.from);
    return true;
  });
  EXPECT_EQ(writers, std::vector<int>{1});
}

}  // namespace
}  // namespace starling
