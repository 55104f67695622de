#include "exchange/named_exchanges.h"

#include <algorithm>
#include <cstring>

#include "base/log.h"
#include "exchange/adasum.h"
#include "exchange/allreduce.h"
#include "exchange/collectives.h"

namespace starling {

namespace {

constexpr Channel kRequests{0, Purpose::control, "asking for an exchange"};
constexpr Channel kOrders{1, Purpose::control, "waiting for the others to ask for an exchange"};
constexpr std::uint32_t kFirstChannel = 16;
constexpr std::uint32_t kChannels = 1 << 16;
constexpr std::size_t kMostMessageBytes = std::size_t{1} << 26;
constexpr std::uint32_t kMostRemembered = 1 << 14;
constexpr std::uint32_t kMostInMessage = 1 << 20;
constexpr std::uint32_t kNew = ~std::uint32_t{0};  // in place of a description's number
constexpr int kFusedAtOnce = 2;
constexpr std::size_t kMostValueBytes = std::size_t{1}
                                        << 28;  // that wait for others at the coordinator

// Memory for a message whose length its sender knows.
class Letter final : public Lender {
 public:
  std::optional<Bytes> lend(std::size_t bytes) override {
    bytes_.resize(bytes);
    return Bytes(bytes_);
  }
  ConstBytes bytes() const { return bytes_; }

 private:
  std::vector<std::byte> bytes_;
};

std::vector<int> ranks_of(const Group& group) {
  std::vector<int> ranks;
  for (int place = 0; place < group.size(); ++place) ranks.push_back(group.in_comm(place));
  return ranks;
}

std::size_t bytes_in(const NamedRequest& request) {
  std::size_t bytes = 0;
  for (const TensorForm& tensor : request.tensors) {
    bytes += tensor.elements() * info(tensor.type).bytes;
  }
  return bytes;
}

bool is_plain_allreduce(const NamedRequest& request) {
  return request.act == Act::allreduce && request.blend != Blend::adasum;
}

void put_into(ConstVector from, Vector to) {
  if (from.data() != to.data() && !from.empty()) {
    std::memmove(to.data(), from.data(), from.bytes().size());
  }
}

std::vector<Range> pieces_of(const std::vector<std::uint64_t>& rows, std::uint64_t row_elements) {
  std::vector<Range> pieces;
  std::size_t begin = 0;
  for (const std::uint64_t count : rows) {
    pieces.push_back({begin, begin + count * row_elements});
    begin = pieces.back().end;
  }
  return pieces;
}

Gathered memory_for(Element type, std::size_t elements) {
  const std::size_t bytes = elements * info(type).bytes;
  return {std::make_unique_for_overwrite<std::byte[]>(bytes), bytes};
}

bool is_integer(Element type) { return type >= Element::u8 && type <= Element::i64; }

Reduction reduction_of(Blend blend) {
  return blend == Blend::mean ? Reduction::sum : static_cast<Reduction>(blend);
}

// What is left to do with the sum, or whatever it is, over all ranks. A mean is over all ranks, also
// those who have joined.
void conclude_blend(Vector values, const NamedRequest& request, int ranks) {
  if (request.blend == Blend::mean && is_integer(values.type()) && request.after == 1) {
    conclude(values, Reduction::mean, ranks);
  } else {
    multiply(values, request.blend == Blend::mean ? request.after / ranks : request.after);
  }
}

}  // namespace

NamedExchanges::NamedExchanges(Group group, Limits limits)
    : group_(group),
      limits_(limits),
      roll_(ranks_of(group)),
      remembered_(static_cast<std::size_t>(group.size())),
      called_(group.loop()),
      waiting_(group.loop()) {
  if (!coordinates()) {
    ears_.emplace_back(hear_orders());
    if (group_.rank() == 1) ears_.emplace_back(watch_coordinator());
    return;
  }
  for (int place = 1; place < group_.size(); ++place) ears_.emplace_back(hear_requests(place));
  ears_.emplace_back(conduct());
  ears_.emplace_back(watch());
}

NamedExchanges::~NamedExchanges() {
  ears_.clear();
  const auto closed = std::make_exception_ptr(Error("the exchanges of this group are closed"));
  for (UnderWay& each : under_way_) {
    each.running.reset();
    for (const SharedExchange& exchange : each.exchanges) end(*exchange, closed);
  }
  fail_all(closed);
}

void NamedExchanges::end(NamedExchange& exchange, std::exception_ptr error) {
  if (exchange.ended) return;
  exchange.ended = true;
  exchange.over = group_.loop().now();
  exchange.error = std::move(error);
  exchange.bell.ring();
}

void NamedExchanges::fail_all(std::exception_ptr error) {
  if (!broken_) broken_ = error;
  for (const auto& [number, exchange] : std::exchange(asked_, {})) end(*exchange, error);
}

Task<> NamedExchanges::all_ended(std::vector<SharedExchange> exchanges) {
  for (const SharedExchange& exchange : exchanges) {
    while (!exchange->ended) co_await exchange->bell.rung();
  }
  for (const SharedExchange& exchange : exchanges) {
    if (exchange->error) std::rethrow_exception(exchange->error);
  }
}

void NamedExchanges::ask(const std::vector<SharedExchange>& exchanges) {
  for (const SharedExchange& exchange : exchanges) exchange->asked = group_.loop().now();
  if (broken_) {
    for (const SharedExchange& exchange : exchanges) end(*exchange, broken_);
    return;
  }
  if (!coordinates()) return send_requests(exchanges);
  std::vector<SharedRequest>& own = remembered_[0].requests;
  for (const SharedExchange& exchange : exchanges) {
    asked_[next_number_] = exchange;
    const std::string description = describe(*exchange);
    SharedRequest request;
    if (!description.empty()) {
      request = shared(description);
      if (exchange->description) own.push_back(request);
    } else {
      request = own[*exchange->description];
    }
    roll_.take(0, next_number_++, std::move(request), group_.loop().now());
  }
  called_.ring();
  waiting_.ring();
}

// --- members ---

void NamedExchanges::send_requests(const std::vector<SharedExchange>& exchanges) {
  std::size_t bytes = 0;
  for (const SharedExchange& exchange : exchanges) bytes += bytes_in(exchange->request);
  const bool are_small = bytes * static_cast<std::size_t>(group_.size() - 1) <= limits_.small_bytes;
  ByteWriter message;
  message.put(static_cast<std::uint32_t>(exchanges.size()));
  for (const SharedExchange& exchange : exchanges) {
    asked_[next_number_++] = exchange;
    const std::string description = describe(*exchange);
    if (!description.empty()) {
      message.put(kNew);
      message.put_text(description);
    } else {
      message.put(*exchange->description);
    }
    const bool brings_values = are_small && is_plain_allreduce(exchange->request);
    message.put(static_cast<std::uint8_t>(brings_values));
    for (std::size_t i = 0; i < exchange->places.size() && brings_values; ++i) {
      message.put_bytes(exchange->places[i].from.bytes());
    }
  }
  post(0, kRequests, message.take());
  waiting_.ring();
}

// A coordinator that is late itself has not heard of any request, so that it cannot say who waits.
Task<> NamedExchanges::watch_coordinator() {
  Loop& loop = group_.loop();
  std::uint64_t next = 0;  // what was asked for before is told
  while (true) {
    if (asked_.empty()) {
      co_await waiting_.rung();
      continue;
    }
    co_await sleep_until(loop, loop.now() + limits_.warning / 16);
    const auto oldest = asked_.lower_bound(next);
    const Time since = loop.now() - limits_.warning * 5 / 4;
    if (oldest == asked_.end() || oldest->second->asked > since) continue;
    next = next_number_;
    const NamedRequest& request = oldest->second->request;
    if (request.act == Act::join) continue;  // who has joined waits for the others' work
    spdlog::warn("{} '{}' waits: rank {} says for whom, or is late itself",
                 kActNames[static_cast<std::size_t>(request.act)], request.name, group_.in_comm(0));
  }
}

std::string NamedExchanges::describe(NamedExchange& exchange) {
  if (exchange.description) return "";
  const std::vector<std::byte> bytes = encode(exchange.request);
  std::string description(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  const auto known = described_.find(description);
  if (known != described_.end()) {
    exchange.description = known->second;
    return "";
  }
  const auto number = static_cast<std::uint32_t>(described_.size());
  if (number < kMostRemembered) {
    described_.emplace(description, number);
    exchange.description = number;
  }
  return description;
}

Task<> NamedExchanges::hear_orders() {
  try {
    while (true) {
      Letter letter;
      co_await group_.receive(0, kOrders, Bytes(), kMostMessageBytes, letter);
      ByteReader in(letter.bytes());
      const std::uint32_t orders = in.get_count(kMostInMessage);
      for (std::uint32_t i = 0; i < orders; ++i) {
        Order order;
        const auto act = in.get<std::uint8_t>();
        if (act >= kActNames.size()) throw Error(fmt::format("there is no act {}", act));
        order.act = static_cast<Act>(act);
        order.channel = in.get<std::uint32_t>() % kChannels;
        order.error = in.get_text(1 << 20);
        const std::uint32_t places = in.get_count(static_cast<std::size_t>(group_.size()));
        for (std::uint32_t p = 0; p < places; ++p) {
          const auto place = in.get<std::uint32_t>();
          if (place >= static_cast<std::uint32_t>(group_.size())) {
            throw Error(fmt::format("there is no place {}", place));
          }
          order.places.push_back(static_cast<int>(place));
        }
        const std::uint32_t rows = in.get_count(std::size_t{1} << 24);
        for (std::uint32_t r = 0; r < rows; ++r) order.rows.push_back(in.get<std::uint64_t>());
        const std::uint32_t numbers = in.get_count(kMostInMessage);
        for (std::uint32_t n = 0; n < numbers; ++n)
          order.numbers.push_back(in.get<std::uint64_t>());
        if (in.get<std::uint8_t>() != 0) {
          const ConstBytes bytes = in.get_bytes(kMostMessageBytes);
          order.results = std::make_shared<std::vector<std::byte>>(bytes.begin(), bytes.end());
        }
        obey(order);
      }
    }
  } catch (...) {
    fail_all(std::current_exception());
  }
}

// --- the coordinator ---

Task<> NamedExchanges::hear_requests(int place) {
  try {
    while (true) {
      Letter letter;
      co_await group_.receive(place, kRequests, Bytes(), kMostMessageBytes, letter);
      take_requests(place, letter.bytes());
      called_.ring();
      waiting_.ring();
    }
  } catch (const PeerLost& loss) {
    if (group_.comm().lost_count() > 0) {
      fail_all(std::current_exception());
    } else {
      roll_.leave(place, "has left");
      called_.ring();
    }
  } catch (...) {
    fail_all(std::current_exception());
  }
}

void NamedExchanges::take_requests(int place, ConstBytes message) {
  Remembered& remembered = remembered_[static_cast<std::size_t>(place)];
  ByteReader in(message);
  const std::uint32_t count = in.get_count(kMostInMessage);
  for (std::uint32_t i = 0; i < count; ++i) {
    const auto described = in.get<std::uint32_t>();
    SharedRequest request;
    if (described == kNew) {
      request = shared(in.get_text(kMostMessageBytes));
      if (remembered.requests.size() < kMostRemembered) remembered.requests.push_back(request);
    } else if (described < remembered.requests.size()) {
      request = remembered.requests[described];
    } else {
      throw Error(fmt::format("rank {} asks for something that it has not described",
                              group_.in_comm(place)));
    }
    if (in.get<std::uint8_t>() != 0) {
      std::vector<std::byte> values;
      for (const TensorForm& tensor : request->tensors) {
        const std::size_t expected = tensor.elements() * info(tensor.type).bytes;
        const ConstBytes bytes = in.get_bytes(kMostMessageBytes);
        if (bytes.size() != expected) {
          throw Error(fmt::format("rank {} sends {} bytes of a tensor of {}", group_.in_comm(place),
                                  bytes.size(), expected));
        }
        values.insert(values.end(), bytes.begin(), bytes.end());
      }
      if (values_bytes_ + values.size() <= kMostValueBytes) {
        values_bytes_ += values.size();
        values_.emplace(std::pair(place, remembered.numbers), std::move(values));
      }
    }
    roll_.take(place, remembered.numbers++, std::move(request), group_.loop().now());
  }
}

// Ranks that want the same have the same: so it need not be read, kept and compared for each.
SharedRequest NamedExchanges::shared(const std::string& description) {
  const auto known = descriptions_.find(description);
  if (known != descriptions_.end()) return known->second;
  const ConstBytes bytes = std::as_bytes(std::span(description));
  auto request = std::make_shared<const NamedRequest>(decode_request(bytes));
  if (descriptions_.size() < kMostRemembered) descriptions_.emplace(description, request);
  return request;
}

// Behind whatever else has come at the same time, so that it is told together.
Task<> NamedExchanges::conduct() {
  while (true) {
    co_await called_.rung();
    announce(roll_.complete());
  }
}

Task<> NamedExchanges::watch() {
  Loop& loop = group_.loop();
  while (true) {
    if (roll_.empty()) {
      co_await waiting_.rung();
      continue;
    }
    co_await sleep_until(loop, loop.now() + std::min(limits_.timeout, limits_.warning) / 16);
    for (const std::string& line : roll_.slow(loop.now() - limits_.warning)) {
      spdlog::warn("{}", line);
    }
    announce(roll_.overdue(loop.now() - limits_.timeout));
  }
}

void NamedExchanges::announce(std::vector<Verdict> verdicts) {
  std::vector<std::vector<Order>> orders(static_cast<std::size_t>(group_.size()));
  for (Verdict& verdict : verdicts) {
    const NamedRequest& request = *verdict.request;
    Order order;
    bool is_over = false;
    try {
      is_over = reduce_here(verdict, order);
    } catch (const Error& error) {  // there is no such reduction
      verdict.error = error.what();
    }
    if (verdict.error.empty() && is_plain_allreduce(request) && !is_over) {
      const std::size_t bytes = bytes_in(request);
      ready_.push_back({std::move(verdict), bytes});
      continue;
    }
    order.act = request.act;
    order.error = verdict.error;
    order.rows = verdict.rows;
    give(orders, std::move(order), std::span(&verdict, 1));
  }
  send(std::move(orders));
  begin_fused();
}

bool NamedExchanges::reduce_here(const Verdict& verdict, Order& order) {
  std::vector<std::vector<std::byte>> of_others;
  for (int place = 1; place < group_.size(); ++place) {
    const auto& number = verdict.numbers[static_cast<std::size_t>(place)];
    if (!number) continue;
    const auto found = values_.find({place, *number});
    if (found == values_.end()) continue;
    values_bytes_ -= found->second.size();
    of_others.push_back(std::move(found->second));
    values_.erase(found);
  }
  const int others = verdict.askers() - 1;
  if (!verdict.error.empty() || !verdict.numbers[0] || !is_plain_allreduce(*verdict.request) ||
      static_cast<int>(of_others.size()) < others) {
    return false;
  }
  const NamedRequest& request = *verdict.request;
  const std::vector<NamedExchange::Place>& places = asked_.at(*verdict.numbers[0])->places;
  std::size_t bytes = 0;
  for (const NamedExchange::Place& place : places) bytes += place.to.bytes().size();
  for (const std::vector<std::byte>& values : of_others) {
    if (values.size() == bytes) continue;
    throw Error(fmt::format("{} '{}': rank {} has {} bytes, and others have {}",
                            kActNames[static_cast<std::size_t>(request.act)], request.name,
                            group_.in_comm(0), bytes, values.size()));
  }
  auto results = std::make_shared<std::vector<std::byte>>();
  std::size_t at = 0;
  for (const NamedExchange::Place& place : places) {
    const Vector sum = place.to;
    put_into(place.from, sum);
    multiply(sum, request.before);
    for (std::vector<std::byte>& values : of_others) {
      const Vector theirs(sum.type(), values.data() + at, sum.size());
      multiply(theirs, request.before);
      combine(sum, theirs, reduction_of(request.blend));
    }
    conclude_blend(sum, request, group_.size());
    results->insert(results->end(), sum.bytes().begin(), sum.bytes().end());
    at += sum.bytes().size();
  }
  order.results = std::move(results);
  return true;
}

void NamedExchanges::begin_fused() {
  while (!ready_.empty() && fused_under_way_ < kFusedAtOnce) {
    std::vector<Verdict> together;
    std::vector<Ready> left;
    std::size_t bytes = 0;
    for (Ready& each : ready_) {
      const auto fits = [&](const Verdict& first) {
        const NamedRequest &a = *first.request, &b = *each.verdict.request;
        if (a.blend != b.blend || a.before != b.before || a.after != b.after) return false;
        for (std::size_t place = 0; place < first.numbers.size(); ++place) {
          if (!first.numbers[place] != !each.verdict.numbers[place]) return false;
        }
        return bytes + each.bytes <= limits_.fused_bytes;
      };
      if (together.empty() || fits(together.front())) {
        bytes += each.bytes;
        together.push_back(std::move(each.verdict));
      } else {
        left.push_back(std::move(each));
      }
    }
    ready_ = std::move(left);
    Order order;
    order.act = Act::allreduce;
    order.fused = true;
    std::vector<std::vector<Order>> orders(static_cast<std::size_t>(group_.size()));
    give(orders, std::move(order), together);
    send(std::move(orders));
  }
}

// One order to each who asked for these, which are the same ranks for all of them.
void NamedExchanges::give(std::vector<std::vector<Order>>& orders, Order order,
                          std::span<const Verdict> verdicts) {
  const Verdict& first = verdicts.front();
  order.channel = next_channel_++ % kChannels;
  if (first.askers() < group_.size()) {
    for (std::size_t place = 0; place < orders.size(); ++place) {
      if (first.numbers[place]) order.places.push_back(static_cast<int>(place));
    }
  }
  for (std::size_t place = 0; place < orders.size(); ++place) {
    if (!first.numbers[place]) continue;
    order.numbers.clear();
    for (const Verdict& verdict : verdicts) order.numbers.push_back(*verdict.numbers[place]);
    orders[place].push_back(order);
  }
}

void NamedExchanges::send(std::vector<std::vector<Order>> orders) {
  for (std::size_t place = 1; place < orders.size(); ++place) {
    if (orders[place].empty()) continue;
    ByteWriter message;
    message.put(static_cast<std::uint32_t>(orders[place].size()));
    for (const Order& order : orders[place]) {
      message.put(static_cast<std::uint8_t>(order.act));
      message.put(order.channel);
      message.put_text(order.error);
      message.put(static_cast<std::uint32_t>(order.places.size()));
      for (const int member : order.places) message.put(static_cast<std::uint32_t>(member));
      message.put(static_cast<std::uint32_t>(order.rows.size()));
      for (const std::uint64_t rows : order.rows) message.put(rows);
      message.put(static_cast<std::uint32_t>(order.numbers.size()));
      for (const std::uint64_t number : order.numbers) message.put(number);
      message.put(static_cast<std::uint8_t>(order.results != nullptr));
      if (order.results) message.put_bytes(*order.results);
    }
    post(static_cast<int>(place), kOrders, message.take());
  }
  for (const Order& order : orders[0]) obey(order);
}

// --- both ---

void NamedExchanges::post(int place, Channel channel, std::vector<std::byte> message) {
  sends_.remove_if([](const Running& each) { return each.done(); });
  sends_.emplace_back(deliver(place, channel, std::move(message)));
}

// That it cannot be delivered is known to whoever listens there.
Task<> NamedExchanges::deliver(int place, Channel channel, std::vector<std::byte> message) {
  try {
    co_await group_.send(place, channel, ConstBytes(message));
  } catch (const Error&) {
  }
}

void NamedExchanges::obey(const Order& order) {
  std::vector<SharedExchange> exchanges;
  for (const std::uint64_t number : order.numbers) {
    const auto found = asked_.find(number);
    if (found == asked_.end()) continue;  // given up
    exchanges.push_back(std::move(found->second));
    asked_.erase(found);
    exchanges.back()->begun = group_.loop().now();
  }
  if (exchanges.empty()) return;
  if (!order.error.empty()) {
    const auto error = std::make_exception_ptr(Error(order.error));
    for (const SharedExchange& exchange : exchanges) end(*exchange, error);
    return;
  }
  if (order.results) {
    NamedExchange& exchange = *exchanges.front();
    ConstBytes left = *order.results;
    for (const NamedExchange::Place& place : exchange.places) {
      const Bytes to = place.to.bytes();
      if (left.size() < to.size()) {
        return end(exchange, std::make_exception_ptr(Error("rank 0 has sent too little")));
      }
      if (!coordinates()) std::ranges::copy(left.first(to.size()), to.begin());
      left = left.subspan(to.size());
    }
    return end(exchange, nullptr);
  }
  std::erase_if(under_way_, [](const UnderWay& each) { return each.running->done(); });
  if (order.fused) ++fused_under_way_;
  UnderWay& begun = under_way_.emplace_back();
  begun.exchanges = exchanges;
  begun.running.emplace(carry_out(order, std::move(exchanges)));
}

Group NamedExchanges::among(const std::vector<int>& places) {
  if (places.empty()) return group_;
  const auto found = subgroups_.find(places);
  if (found != subgroups_.end()) return found->second;
  return subgroups_.emplace(places, group_.some(places)).first->second;
}

Task<> NamedExchanges::carry_out(Order order, std::vector<SharedExchange> exchanges) {
  std::exception_ptr error;
  try {
    const Group group = among(order.places);
    const Channel channel{kFirstChannel + order.channel, Purpose::gradients, "an exchange by name"};
    for (const SharedExchange& exchange : exchanges) {
      if (exchange->request.act != order.act) throw Error("rank 0 has mixed up two exchanges");
    }
    NamedExchange& first = *exchanges.front();
    switch (order.act) {
      case Act::allreduce:
        co_await carry_out_allreduce(group, channel, exchanges);
        break;
      case Act::allgather:
        first.rows = order.rows;
        co_await carry_out_allgather(group, channel, first);
        break;
      case Act::broadcast:
        for (const NamedExchange::Place& place : first.places) {
          if (group.rank() == first.request.root) put_into(place.from, place.to);
          co_await broadcast(group, channel, place.to, first.request.root);
        }
        break;
      case Act::alltoall:
        co_await carry_out_alltoall(group, channel, first, order.rows);
        break;
      case Act::reducescatter:
        co_await carry_out_reducescatter(group, channel, first);
        break;
      case Act::barrier:
        break;
      case Act::join:
        first.rows = order.rows;
        break;
    }
  } catch (...) {
    error = std::current_exception();
  }
  for (const SharedExchange& exchange : exchanges) end(*exchange, error);
  if (order.fused) {
    --fused_under_way_;
    called_.ring();
  }
}

// Tensors of a type as one vector; one alone where it lies.
Task<> NamedExchanges::carry_out_allreduce(Group group, Channel channel,
                                           const std::vector<SharedExchange>& exchanges) {
  const NamedRequest& request = exchanges.front()->request;
  std::map<Element, std::vector<NamedExchange::Place>> by_type;
  for (const SharedExchange& exchange : exchanges) {
    for (const NamedExchange::Place& place : exchange->places) {
      by_type[place.to.type()].push_back(place);
    }
  }
  if (request.blend == Blend::adasum) {
    for (const auto& [type, places] : by_type) {
      for (const NamedExchange::Place& place : places) {
        put_into(place.from, place.to);
        multiply(place.to, request.before);
        co_await adasum(group, channel, place.to);
        multiply(place.to, request.after);
      }
    }
    co_return;
  }
  for (const auto& [type, places] : by_type) {
    std::size_t elements = 0;
    for (const NamedExchange::Place& place : places) elements += place.to.size();
    const bool alone = places.size() == 1;
    auto fused = group.lend<std::byte>(alone ? 0 : elements * info(type).bytes);
    const Vector values = alone ? places[0].to : Vector(type, fused.span().data(), elements);
    std::size_t at = 0;
    for (const NamedExchange::Place& place : places) {
      put_into(place.from, values.subspan(at, place.to.size()));
      at += place.to.size();
    }
    multiply(values, request.before);
    co_await allreduce(find_allreduce("auto"), group, channel, values, reduction_of(request.blend));
    conclude_blend(values, request, group_.size());
    at = 0;
    for (const NamedExchange::Place& place : places) {
      put_into(values.subspan(at, place.to.size()), place.to);
      at += place.to.size();
    }
  }
}

Task<> NamedExchanges::carry_out_allgather(Group group, Channel channel, NamedExchange& exchange) {
  const std::size_t tensors = exchange.places.size();
  const auto ranks = static_cast<std::size_t>(group.size());
  if (exchange.rows.size() != tensors * ranks) throw Error("rank 0 has lost the rows of some rank");
  for (std::size_t t = 0; t < tensors; ++t) {
    const TensorForm& form = exchange.request.tensors[t];
    std::vector<std::uint64_t> rows;
    for (std::size_t place = 0; place < ranks; ++place) {
      rows.push_back(exchange.rows[place * tensors + t]);
    }
    const std::vector<Range> pieces = pieces_of(rows, form.row_elements());
    const std::size_t elements = pieces.back().end;
    exchange.gathered.push_back(memory_for(form.type, elements));
    const Vector all(form.type, exchange.gathered.back().memory.get(), elements);
    const Range own = pieces[static_cast<std::size_t>(group.rank())];
    if (own.size() != exchange.places[t].from.size()) throw Error("rank 0 has mixed up some rows");
    put_into(exchange.places[t].from, all.subspan(own.begin, own.size()));
    co_await all_gather(group, channel, all, pieces);
  }
}

Task<> NamedExchanges::carry_out_alltoall(Group group, Channel channel, NamedExchange& exchange,
                                          const std::vector<std::uint64_t>& splits) {
  const auto ranks = static_cast<std::size_t>(group.size());
  const auto own = static_cast<std::size_t>(group.rank());
  if (splits.size() != ranks * ranks) throw Error("rank 0 has lost the splits of some rank");
  for (std::size_t place = 0; place < ranks; ++place) {
    exchange.rows.push_back(splits[place * ranks + own]);
  }
  const TensorForm& form = exchange.request.tensors.front();
  const std::vector<Range> out = pieces_of(exchange.request.splits, form.row_elements());
  const std::vector<Range> in = pieces_of(exchange.rows, form.row_elements());
  exchange.gathered.push_back(memory_for(form.type, in.back().end));
  const Vector into(form.type, exchange.gathered.back().memory.get(), in.back().end);
  co_await all_to_all(group, channel, exchange.places.front().from, out, into, in);
}

// Rows are dealt out in turn, so that the first ranks have one more where they do not divide.
Task<> NamedExchanges::carry_out_reducescatter(Group group, Channel channel,
                                               NamedExchange& exchange) {
  const NamedRequest& request = exchange.request;
  for (std::size_t t = 0; t < exchange.places.size(); ++t) {
    const TensorForm& form = request.tensors[t];
    const auto ranks = static_cast<std::uint64_t>(group.size());
    std::vector<std::uint64_t> rows;
    for (std::uint64_t place = 0; place < ranks; ++place) {
      rows.push_back(form.rows() / ranks + (place < form.rows() % ranks ? 1 : 0));
    }
    const std::vector<Range> pieces = pieces_of(rows, form.row_elements());
    auto memory = group.lend<std::byte>(exchange.places[t].from.bytes().size());
    const Vector values(form.type, memory.span().data(), exchange.places[t].from.size());
    put_into(exchange.places[t].from, values);
    multiply(values, request.before);
    co_await reduce_scatter(group, channel, values, pieces, reduction_of(request.blend));
    const Range own = pieces[static_cast<std::size_t>(group.rank())];
    const Vector result = values.subspan(own.begin, own.size());
    conclude_blend(result, request, group.size());
    put_into(result, exchange.places[t].to);
  }
}

}  // namespace starling
