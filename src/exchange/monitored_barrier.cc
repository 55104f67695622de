#include "exchange/monitored_barrier.h"

#include <deque>

#include "runtime/race.h"

namespace starling {

namespace {

constexpr Time kForTheWord = std::chrono::seconds(1);  // from place 0, once the deadline is over

using Marks = std::vector<std::uint8_t>;  // 1: is missing

Task<> hear(Group group, Channel channel, int place, std::uint8_t& is_missing) {
  Receive here = group.receive(place, channel, Bytes());
  co_await here;
  is_missing = 0;
}

Task<> hear_all(Group group, Channel channel, Marks& marks) {
  std::deque<Running> hearing;
  for (int place = 1; place < group.size(); ++place) {
    hearing.emplace_back(hear(group, channel, place, marks[static_cast<std::size_t>(place)]));
  }
  for (Running& each : hearing) co_await each;
}

Task<> lead(Group group, Channel channel, Time deadline, bool name_all, Marks& marks) {
  Task<int> contest = race(hear_all(group, channel, marks), sleep_until(group.loop(), deadline));
  co_await contest;
  bool named = false;
  for (std::uint8_t& mark : marks) {
    if (mark != 0 && named && !name_all) mark = 0;
    named = named || mark != 0;
  }
  std::deque<Send> words;
  for (int place = 1; place < group.size(); ++place) {
    words.emplace_back(group, place, channel, bytes_of(std::span<const std::uint8_t>(marks)));
  }
  // Who is missing may never read it.
  if (named) co_return;
  for (Send& word : words) co_await word;
}

Task<> follow(Group group, Channel channel, Marks& marks) {
  Marks word(marks.size());
  Send here = group.send(0, channel, ConstBytes());
  Receive hearing = group.receive(0, channel, writable_bytes(std::span(word)));
  co_await here;
  co_await hearing;
  marks = word;
}

}  // namespace

Task<> monitored_barrier(Group group, Channel channel, Time deadline, bool name_all,
                         std::vector<int>& missing) {
  Marks marks(static_cast<std::size_t>(group.size()), 1);
  if (group.rank() == 0) {
    marks[0] = 0;
    Task<> leading = lead(group, channel, deadline, name_all, marks);
    co_await leading;
  } else {
    Task<int> contest =
        race(follow(group, channel, marks), sleep_until(group.loop(), deadline + kForTheWord));
    const int winner = co_await contest;
    if (winner == 1) std::fill(marks.begin() + 1, marks.end(), std::uint8_t{0});  // 0 alone
  }
  missing.clear();
  for (int place = 0; place < group.size(); ++place) {
    if (marks[static_cast<std::size_t>(place)] != 0) missing.push_back(place);
  }
}

}  // namespace starling
