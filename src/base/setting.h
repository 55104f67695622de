// A setting as files, flags and help know it. The struct that owns some has a function that names
// them all, and that alone: reading, writing, checks and the command line go through it.
//
//   template <class Self, class Visitor>
//   static void visit(Self& s, Visitor&& visit);
//
// calls visit(setting, field), and for numbers visit(setting, field, smallest, largest).
#pragma once

#include <string>

namespace starling {

// What a setting is about, as help sorts them. All but what is trained is for programs of the user's
// own as well.
enum class Section { together, model, decentral, sent, servers, learning, trained };

// The choice that a setting is part of: without that choice, nobody reads it.
struct Use {
  bool is_read = true;
  std::string with = {};         // the choice in words; none: whoever reads its struct reads it
  std::string otherwise = {};    // what else somebody may have meant
  bool only_where_open = false;  // not by strategies that are short for a certain choice
};

// What of a setting all machines of a job must have alike before they train together.
enum class Alike { value, contents, nothing };  // contents: of the file that it may name

struct Setting {
  const char* name;
  Section section;
  std::string help;
  Use use = {};
  Alike alike = Alike::value;
};

}  // namespace starling
