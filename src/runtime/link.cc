#include "runtime/link.h"

namespace starling {

namespace {

// Waits until a link is ready, in one of its directions.
class LinkReady : public Waiter {
 public:
  using When = void (Link::*)(Link::Callback);

  LinkReady(Loop& loop, Link& link, When when) : loop_(loop), link_(link), when_(when) {}
  ~LinkReady() {
    if (waits_) (link_.*when_)(nullptr);
  }

  bool await_ready() const { return false; }
  void await_suspend(std::coroutine_handle<> awaiter) {
    coroutine = awaiter;
    waits_ = true;
    (link_.*when_)([this] {
      waits_ = false;
      loop_.ready(*this);
    });
  }
  void await_resume() const {}

 private:
  Loop& loop_;
  Link& link_;
  When when_;
  bool waits_ = false;
};

// How many bytes were moved; throws HungUp if no more will be.
std::size_t moved(const Link::Transfer& transfer) {
  if (transfer.status == Link::Status::closed) throw HungUp("it hung up");
  if (transfer.status == Link::Status::broken) throw HungUp(transfer.error.message());
  return transfer.bytes;
}

}  // namespace

void write_at_once(Link& link, ConstBytes bytes) {
  while (!bytes.empty()) {
    const Link::Transfer written = link.write_some(bytes);
    if (written.status != Link::Status::moved) return;
    bytes = bytes.subspan(written.bytes);
  }
}

Task<> read_exactly(Loop& loop, Link& link, Bytes bytes) {
  while (!bytes.empty()) {
    const std::size_t got = moved(link.read_some(bytes));
    bytes = bytes.subspan(got);
    if (got == 0) co_await until_readable(loop, link);
  }
}

Task<> until_readable(Loop& loop, Link& link) {
  LinkReady readable(loop, link, &Link::when_readable);
  co_await readable;
}

Task<> write_all(Loop& loop, Link& link, ConstBytes bytes) {
  while (!bytes.empty()) {
    const std::size_t put = moved(link.write_some(bytes));
    bytes = bytes.subspan(put);
    if (put > 0) continue;
    LinkReady writable(loop, link, &Link::when_writable);
    co_await writable;
  }
}

}  // namespace starling
