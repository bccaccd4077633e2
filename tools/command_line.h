// Reads the command line. What is wrong with it becomes one sentence.
#pragma once
#include <string>

#include "tools/options.h"

namespace strata::tools {

// The command, as in "checkpoint inspect", with its arguments; "" where --help or --version has been
// answered. Throws InputError naming the command, and of an unknown word the nearest that is known.
std::string read_command_line(int argc, char** argv, Arguments& arguments);

}  // namespace strata::tools
