// Exchanges that meet by name, whatever the order in which each rank asks for them.
//
//   A. Who wants an exchange tells the coordinator, the rank at place 0: its name, and what all must
//      have alike. A description that it has sent before goes as a number of four bytes.
//   B. The coordinator calls the roll (roll_call.h). What everybody has asked for begins: it tells each
//      who asked, by the place of the request in that rank's own row, on which channel, and what it
//      must know of the others' rows. What differs fails everywhere with the same words; so does what
//      somebody has not asked for in time.
//   C. All-reduces that are ready at the same time go as one, up to so many bytes. No more than two
//      such are under way: what becomes ready meanwhile gathers, without a timer.
//   D. Those who asked carry the exchange out. Who has joined takes no part.
//
// Small all-reduces are over with A and B: their values go with the request, the coordinator reduces
// them in the order of ranks, and the result comes with the answer.
//
// Nobody sends anything unless somebody asks for something. All of it belongs to the thread that drives
// the loop.
#pragma once

#include <list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/vector.h"
#include "exchange/named_request.h"
#include "exchange/roll_call.h"
#include "runtime/group.h"

namespace starling {

// Memory that an exchange has found itself, as only the others know how much is to come.
struct Gathered {
  std::unique_ptr<std::byte[]> memory;
  std::size_t bytes = 0;
};

// One that is asked for. Its memory must stay until it has ended. After that it may be asked for again,
// of the same NamedExchanges.
struct NamedExchange {
  // Of each tensor, what is read and what is written, which may be the same. An allgather and an
  // alltoall write to `gathered` instead.
  struct Place {
    ConstVector from;
    Vector to;
  };

  NamedExchange(Loop& loop, NamedRequest what, std::vector<Place> where)
      : request(std::move(what)), places(std::move(where)), bell(loop) {}

  NamedRequest request;
  std::vector<Place> places;
  std::vector<Gathered> gathered;
  // allgather: place by place the rows of each tensor. alltoall: the rows that came from each place.
  // join: the place that came last.
  std::vector<std::uint64_t> rows;
  Time asked{0}, begun{0}, over{0};
  std::optional<std::uint32_t> description;  // the number that the coordinator knows it by
  bool ended = false;
  std::exception_ptr error;
  Bell bell;
};
using SharedExchange = std::shared_ptr<NamedExchange>;

class NamedExchanges {
 public:
  struct Limits {
    Time timeout;                                    // for the others to ask for the same
    std::size_t fused_bytes = std::size_t{8} << 20;  // of all-reduces that go as one
    // Of all-reduces that go with their request, together what the coordinator gets of all ranks.
    std::size_t small_bytes = std::size_t{1} << 19;
    Time warning = std::chrono::seconds(60);  // after which it is told for whom they wait
  };

  NamedExchanges(Group group, Limits limits);
  ~NamedExchanges();
  NamedExchanges(const NamedExchanges&) = delete;
  NamedExchanges& operator=(const NamedExchanges&) = delete;

  // Asks for them. Their errors are in them.
  void ask(const std::vector<SharedExchange>& exchanges);
  // Waits for all of them, then throws the first error.
  static Task<> all_ended(std::vector<SharedExchange> exchanges);

 private:
  // What the coordinator tells.
  struct Order {
    Act act = Act::barrier;
    std::uint32_t channel = 0;
    std::string error;
    std::vector<int> places;  // of those who take part; none: everybody
    std::vector<std::uint64_t> rows;
    std::vector<std::uint64_t> numbers;  // of the requests, in the row of whoever is told
    bool fused = false;
    std::shared_ptr<const std::vector<std::byte>> results;  // of one that is over with this
  };
  struct UnderWay {
    std::vector<SharedExchange> exchanges;
    std::optional<Running> running;
  };
  struct Ready {
    Verdict verdict;
    std::size_t bytes;
  };

  bool coordinates() const { return group_.rank() == 0; }
  void end(NamedExchange& exchange, std::exception_ptr error);
  void fail_all(std::exception_ptr error);

  // Members.
  void send_requests(const std::vector<SharedExchange>& exchanges);
  // Sets the number of its description; returns the description itself if it is a new one.
  std::string describe(NamedExchange& exchange);
  Task<> watch_coordinator();
  Task<> hear_orders();
  void obey(const Order& order);

  // The coordinator.
  Task<> hear_requests(int place);
  void take_requests(int place, ConstBytes message);
  SharedRequest shared(const std::string& description);
  Task<> conduct();
  Task<> watch();
  void announce(std::vector<Verdict> verdicts);
  // Takes the values that came with it; true if all came, and the results are in the order.
  bool reduce_here(const Verdict& verdict, Order& order);
  void begin_fused();
  void give(std::vector<std::vector<Order>>& orders, Order order,
            std::span<const Verdict> verdicts);
  void send(std::vector<std::vector<Order>> orders);

  // Both.
  void post(int place, Channel channel, std::vector<std::byte> message);
  Task<> deliver(int place, Channel channel, std::vector<std::byte> message);
  Group among(const std::vector<int>& places);
  Task<> carry_out(Order order, std::vector<SharedExchange> exchanges);
  Task<> carry_out_allreduce(Group group, Channel channel,
                             const std::vector<SharedExchange>& exchanges);
  Task<> carry_out_allgather(Group group, Channel channel, NamedExchange& exchange);
  Task<> carry_out_alltoall(Group group, Channel channel, NamedExchange& exchange,
                            const std::vector<std::uint64_t>& splits);
  Task<> carry_out_reducescatter(Group group, Channel channel, NamedExchange& exchange);

  struct Remembered {  // what a rank has described, in that order
    std::vector<SharedRequest> requests;
    std::uint64_t numbers = 0;
  };

  Group group_;
  Limits limits_;
  std::exception_ptr broken_;
  std::uint64_t next_number_ = 0;
  std::map<std::uint64_t, SharedExchange> asked_;
  std::map<std::string, std::uint32_t> described_;
  std::map<std::vector<int>, Group> subgroups_;
  std::list<UnderWay> under_way_;

  RollCall roll_;
  std::vector<Remembered> remembered_;
  std::map<std::string, SharedRequest> descriptions_;  // of all ranks
  std::map<std::pair<int, std::uint64_t>, std::vector<std::byte>>
      values_;  // that came with requests
  std::size_t values_bytes_ = 0;
  std::vector<Ready> ready_;
  int fused_under_way_ = 0;
  std::uint32_t next_channel_ = 0;
  Bell called_, waiting_;

  std::list<Running> sends_;
  std::list<Running> ears_;  // the first to go: all of them look at what is above
};

}  // namespace starling
