// Several ranks on real loopback sockets, all in this thread: one loop drives them all.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "job/join.h"
#include "runtime/all.h"
#include "runtime/race.h"
#include "tests/net/patience.h"

namespace starling {

class Flock {
 public:
  explicit Flock(int size, std::chrono::seconds timeout = std::chrono::seconds(20)) {
    asio::ip::tcp::acceptor listener = listen_on_loopback(loop_);
    const int listen_fd = ::dup(listener.native_handle());
    for (int rank = 0; rank < size; ++rank) {
      Job job;
      job.rank = rank;
      job.size = size;
      job.rendezvous = "127.0.0.1:" + std::to_string(listener.local_endpoint().port());
      job.secret = "a secret of the flock";
      job.timeout = timeout;
      jobs_.push_back(job);
    }
    listener.close();
    members_.resize(jobs_.size());
    std::vector<Task<>> tasks;
    for (const Job& job : jobs_) {
      tasks.push_back(come(host_, job, job.rank == 0 ? host_.adopt(listen_fd) : nullptr,
                           members_[static_cast<std::size_t>(job.rank)]));
    }
    loop_.run(all(std::move(tasks)));
  }

  void run(const std::function<Task<>(Comm&)>& program) {
    std::vector<Task<>> tasks;
    for (auto& member : members_) {
      if (member) tasks.push_back(program(member->comm()));
    }
    loop_.run(
        within(loop_, loop_.now() + std::chrono::seconds(60), "the test", all(std::move(tasks))));
  }

  template <class Predicate>
  void until(const Predicate& so) {
    poll_until(loop_, so);
  }
  template <class... Operations>
  void until_done(const Operations&... operations) {
    until([&] { return (operations.done() && ...); });
  }

  TcpLoop& loop() { return loop_; }
  Membership& member(int rank) { return *members_[static_cast<std::size_t>(rank)]; }
  Mesh& comm(int rank) { return member(rank).comm(); }
  TcpLink& link(int rank, int peer) { return dynamic_cast<TcpLink&>(comm(rank).link(peer)); }
  const Job& job(int rank) const { return jobs_[static_cast<std::size_t>(rank)]; }
  void leave(int rank) { members_[static_cast<std::size_t>(rank)].reset(); }

 private:
  static Task<> come(Host& host, Job job, std::unique_ptr<Listener> listener,
                     std::optional<Membership>& member) {
    member.emplace(co_await join_task(host, job, std::move(listener)));
  }

  TcpLoop loop_;
  TcpHost host_{loop_};
  std::vector<Job> jobs_;
  std::vector<std::optional<Membership>> members_;
};

}  // namespace starling
