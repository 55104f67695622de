#include "job/ask_member.h"

#include <fmt/format.h>

#include "base/error.h"
#include "job/roster_door.h"
#include "net/tcp_host.h"

namespace starling {

Message ask_member(const Job& job, const std::string& door, Message::Kind kind) {
  TcpLoop loop;
  TcpHost host(loop, job.network);
  const Address address = host.find(door);
  RosterDoor own(host, job, host.listen(address, 0));
  Message question;
  question.kind = kind;
  const RosterPost::Answer answer = loop.run(own.ask(address, question, job.timeout));
  if (!answer.message) {
    throw Error(fmt::format("no worker of a job answers at {} ({})", door, answer.why),
                "it says where when it starts; the secret must be the job's");
  }
  return *answer.message;
}

}  // namespace starling
