// Council: how those who are left agree on the next generation. Paxos, one decree a generation: what is
// decided is the roster of generation g + 1, who votes are the members of generation g, and any of
// them may propose.
//
//   A. Whoever needs the next generation asks the lowest member that it can reach to propose it, and
//      proposes itself if that comes to nothing.
//   B. The proposer asks all members to hear no earlier proposal (prepare). They say how far they are,
//      who waits to be let in, and to which roster they have agreed before, if to any.
//   C. If enough have promised (roster.h), it proposes the roster that was agreed to in the latest
//      ballot; if there is none, it has a free hand: those who promised and want to stay, in their
//      order, and the guests behind them.
//   D. If enough agree, that is the next generation, and all of it are told.
//
// Nothing here stops anybody from working: a member goes on in its generation until it hears of the
// next, or can do nothing more without the others. So a join or a leave costs no step: the roster says
// after which one it begins.
//
// No member is special, and what is remembered of a generation dies with its processes: one that is
// started again is a new member.
#pragma once

#include <functional>
#include <list>
#include <map>
#include <optional>
#include <vector>

#include "base/random.h"
#include "roster/message.h"
#include "runtime/bell.h"
#include "runtime/loop.h"
#include "runtime/running.h"

namespace starling {

// How a member is asked.
class RosterPost {
 public:
  virtual ~RosterPost() = default;

  struct Answer {
    std::optional<Message> message;
    bool is_dead = false;  // its machine says that nobody listens there any more
    std::string why = {};  // there is no message
  };
  // Throws nothing: who cannot be reached, does not answer in time or talks nonsense has no answer.
  virtual Task<Answer> ask(Address door, Message question, Time patience) = 0;
};

class Council {
 public:
  struct Rules {
    int least_workers = 1;    // with fewer there is no next generation; we wait for guests
    int most_workers = 4096;  // more guests wait at the door
    int least_servers = 0;    // as with workers
    bool in_step = true;      // members must end a generation after the same step
    // Who comes or wants to go is let in or out at once; if not, when the members, who see by
    // wants_change() that somebody does, ask for the next generation together.
    bool at_once = true;
    Time patience{};                    // with a member that is there and does not answer
    std::array<std::byte, 32> terms{};  // a digest of what all must have alike
    Time wait{};                        // for a generation that has us, before we give up
  };

  // Of a member of a generation, or of one who wants to join: then the roster is of those who are asked
  // for it, and self is not among them.
  Council(Loop& loop, RosterPost& post, Member self, Roster roster, Rules rules,
          std::uint64_t seed);

  // What we say to one who calls; `from` is where it is.
  Message answer(const Message& question, const Address& from);

  // The last roster that was decided, as far as we know.
  const Roster& roster() const { return roster_; }
  const Member& self() const { return self_; }
  // Where we listen for the links of the generation that comes next.
  void listen_at(std::uint32_t port) { self_.port = port; }

  // How many steps of our generation we have done.
  void note_step(std::uint64_t steps) {
    step_ = steps;
    counts_steps_ = true;
  }
  // Whether a generation was decided that is due now, after so many steps of ours.
  bool is_due() const { return roster_.generation > generation_ && step_ >= roster_.begins_after; }
  // Asks the others to go on without us. It takes effect with the next generation.
  void leave();
  bool leaves() const { return leaves_; }
  // Whether somebody has come whom we may let in, or we want to go, or have been left behind.
  bool wants_change();

  // Our generation can do nothing more, or another one is due: until there is a later one that has us,
  // which is ours from then on. One that was left out asks to be let in again; false if it wanted to
  // leave, or the others have come to the end without it. Throws DeadlineExceeded when no generation has
  // got on for as long as the rules say, however many have been agreed on.
  Task<bool> next();

  // All of our generation have met. Until then nobody is let in: those who are still on their way to it
  // would find the others gone on.
  void has_met() {
    has_met_ = true;
    work_.ring();
  }
  // A generation did not come together: whom it was missing, if that is known, and those who had come
  // to it as guests. They are not asked in again for a while, or one whom not all can reach would keep
  // the others from their work for ever.
  void did_not_meet(std::optional<std::uint64_t> missing, const std::vector<std::uint64_t>& guests);

  // While a generation comes together: the first of these places in it whose member is known to be dead.
  // Until then it waits.
  Task<int> first_dead(std::vector<int> places);
  // The work is done: tells those who wait at the door, so that they do not take us for dead.
  Task<> tell_end();

  // Rings when a roster was decided, and may at other times.
  Bell& news() { return news_; }

 private:
  struct Guest {
    Member member;
    Time heard;
  };
  struct Tally {
    std::vector<RosterPost::Answer> answers;  // in the order of places
    std::vector<bool> agree, dead;
  };

  bool is_member() const { return roster_.has(self_.id); }
  // Who decides on the next generation.
  Roster voters() const {
    return outlives_ ? Roster{roster_.generation, 0, worked_in_.members} : roster_;
  }
  bool votes() const { return outlives_ || is_member(); }
  std::uint64_t next_generation() const { return roster_.generation + 1; }
  void learn(const Roster& roster);
  Message message(Message::Kind kind) const;
  Message answer_member(const Message& question);

  void want_next();
  bool must_propose();
  void forget_old_guests();
  bool lets_somebody_in() const;
  bool shuns(std::uint64_t id) const;
  Task<> lead();
  Task<bool> propose();
  Roster compose(const Roster& voters, const Tally& tally);
  void leave_out_who_cannot_meet(Roster& next, const Roster& voters, const Tally& tally) const;
  std::uint64_t last_step(const Roster& voters, const Tally& tally) const;
  Task<> poll(const Message& question, const Roster& voters, Tally& tally, Message::Kind agreement);
  Task<> ask_one(Member member, Message question, Time patience, RosterPost::Answer& answer);
  bool is_worth_it(const Tally& tally) const;
  Task<> tell_all(Roster roster, Roster voters);

  void hear_guest(const Guest& guest);
  void hear_of_the_end(const Roster& roster);
  Time waited() const;
  Task<> until_news();
  Task<> until_news_or(Time deadline);
  Task<bool> lower_one_leads();
  Task<> ask_to_join();
  Task<> ask_again_and_again(Member member, bool& is_dead, const std::list<bool>& dead);
  void outlive_all();
  Task<> until_dead(Member member);

  Loop& loop_;
  RosterPost& post_;
  Member self_;
  Roster roster_;                 // the last that was decided
  std::uint64_t generation_ = 0;  // that we work in
  Roster worked_in_;              // of it; empty if we have just come
  Rules rules_;
  Random random_;
  std::uint64_t step_ = 0;
  bool leaves_ = false;
  bool stopped_ = false;  // our generation can do nothing more
  bool has_met_ = false;
  bool counts_steps_ = false;  // it is told of them
  Time entered_;               // our generation
  Time waited_{0};             // for one that gets on, until then
  bool outlives_ = false;      // all of roster_, in which we have no part
  bool is_over_ = false;       // the others have come to the end

  // As a voter on the generation after roster_.
  Ballot promised_, agreed_in_;
  std::optional<Roster> agreed_;
  std::uint64_t highest_round_ = 0;

  std::map<std::uint64_t, Guest> guests_;
  std::map<std::uint64_t, Guest> waiting_;  // the same, and those that are shunned
  struct Shunned {
    Time until;
    int times;
  };
  std::map<std::uint64_t, Shunned> shunned_;
  std::uint64_t missed_ = 0;  // whom our last generation was missing; 0: nobody
  std::uint64_t wanted_ = 0;  // the generation that somebody needs
  Bell news_, work_;
  std::list<Running> telling_;
  std::optional<Running> lead_;  // the first to go
};

}  // namespace starling
