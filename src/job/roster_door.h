// RosterDoor: where a rank is asked about the roster, for as long as it runs, and how it asks others.
// Each call begins with the handshake of job/handshake.h, with a secret of its own that is made of the
// job's: who does not know it can neither ask nor answer.
#pragma once

#include <array>
#include <functional>
#include <list>
#include <memory>
#include <set>

#include "job/job.h"
#include "roster/council.h"

namespace starling {

class RosterDoor : public RosterPost {
 public:
  using Answering = std::function<Message(const Message& question, const Address& from)>;

  RosterDoor(Host& host, Job job, std::unique_ptr<Listener> listener);

  std::uint32_t port() const { return listener_->port(); }
  // From now on those who call are answered; until then they wait.
  void open(Answering answering);
  // Nobody is answered any more.
  void close();

  Task<Answer> ask(Address door, Message question, Time patience) override;

 private:
  struct Call {
    Call(RosterDoor& door, Listener::Caller called)
        : caller(std::move(called)), running(door.hear(*this)) {}
    Listener::Caller caller;
    bool is_known = false;  // has shaken hands
    Running running;
  };

  Task<> welcome();
  void make_room();
  Task<> hear(Call& call);
  Task<> reply(Call& call);
  Task<> talk(Address door, std::unique_ptr<Link>& link, const Message& question, Answer& answer);
  Task<> call_up(Address door, std::unique_ptr<Link>& link, Answer& answer);

  Host& host_;
  Job job_;
  std::optional<TlsKeys> keys_;
  std::unique_ptr<Listener> listener_;
  Answering answering_;
  std::list<Call> calls_;
  std::uint64_t callers_ = 0;
  std::set<std::array<unsigned char, 16>> known_places_;  // where some of the job have called from
  std::optional<Running> welcoming_;                      // the first to go
};

}  // namespace starling
