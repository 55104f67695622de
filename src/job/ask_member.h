// Asks a member of a running job something, from outside of it.
#pragma once

#include "job/job.h"
#include "roster/message.h"

namespace starling {

// Of the job only secret and encryption matter; the door is host:port. Throws Error if nobody answers
// there who knows the secret.
Message ask_member(const Job& job, const std::string& door, Message::Kind question);

}  // namespace starling
